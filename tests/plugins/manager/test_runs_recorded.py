"""What a run leaves in the record of its agent, and what followers are told of it."""

from __future__ import annotations

import anyio
import pytest

from greenroom.agents import AgentRecord
from greenroom_manager._records import NAMESPACE
from greenroom_manager._row import decode
from greenroom_testing import accept

pytestmark = pytest.mark.anyio


def states(seen) -> list[str]:
    return [type(change.snapshot.state).__name__ for change in seen]


@pytest.mark.behaviour("P-126")
async def test_changes_within_one_millisecond_have_later_and_later_times(home) -> None:
    agent = await home.create()
    home.directory._book._clock = lambda: 1_000_000
    times: list[int] = []
    home.directory._book.observe(lambda _id, _before, after: times.append(after.updated_at))
    before = (await home.record(agent.id)).updated_at
    await agent.run("go")
    await agent.when_idle()
    assert len(times) > 1
    assert [before, *times] == sorted({before, *times})


@pytest.mark.behaviour("P-127")
async def test_a_message_that_begins_a_run_tells_of_the_run_alone_and_one_that_waits_of_nothing(home) -> None:
    agent = await home.create()
    home.provider.starting = accept
    async with home.follow(agent.id) as seen:
        before = len(seen)
        agent.send("for later", "next-turn", wake=False)
        await home.ways.holdings.context.book.flush(agent.id)
        assert seen[before:] == []
        agent.followup("go")
        await home.until(lambda: len(seen) > before)
        assert states(seen)[before] == "Running"


@pytest.mark.behaviour("P-128")
async def test_a_finished_run_that_nobody_followed_is_on_disk_as_unread_and_idle(home) -> None:
    agent = await home.create()
    await agent.run("go")
    table = home.store.records(NAMESPACE)

    async def stored() -> AgentRecord:
        row = await table.get(agent.id)
        return decode(agent.id, row.value)

    with anyio.fail_after(5):
        while (record := await stored()).state != "idle" or record.unread is None:  # noqa: ASYNC110 - a row of a store
            await anyio.sleep(0.001)  # the book writes by itself; nobody asks it to
    assert record.unread.reason == "finished"
