"""What providers, plugins and stores do wrong, and what becomes of it."""

from __future__ import annotations

import anyio
import pytest

import greenroom_driver
from greenroom import Host, hookimpl, load_settings
from greenroom.agents import AgentError, AgentSpec, DisposeFailed, Failed
from greenroom.providers import (
    MessageDone,
    Notice,
    PermissionDeny,
    PermissionResolved,
    ProviderError,
    Raw,
    ShellDetail,
    TextDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnCanceled,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
)
from greenroom.sessions import Medium, MemoryStore, StoreStalled
from greenroom_testing import ScriptedPlugin, ScriptedProvider, accept, answer, hang

from .jumping import JUMPING

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module", params=[JUMPING], ids=["trio"])
def anyio_backend(request):
    return request.param


async def end(rig) -> None:
    rig.session.end()
    await rig.agent.when_idle()


class TestProvider:
    async def test_a_delta_of_a_mebibyte_is_logged_in_pieces_and_whole(self, rig, turn):
        whole = "ß" * (1024 * 512)
        rig.session.say(whole)
        await end(rig)
        assert "".join(rig.texts()) == whole
        assert max(len(event.raw) for event in rig.of("assistant/message")) < 70_000

    async def test_an_output_of_a_mebibyte_goes_to_the_store_and_its_detail_is_cut(self, rig, turn):
        output = "x" * (1024 * 1024)
        rig.session.emit(ToolStarted(call_id="c", name="sh", turn_id=turn))
        detail = ShellDetail(command="cat", output=output)
        rig.session.emit(ToolFinished(call_id="c", name="sh", turn_id=turn, output=output, detail=detail))
        await end(rig)
        [result] = rig.of("tool/result")
        blob = result.data.output
        assert await rig.host.sessions.store.read_blob(rig.agent.id, blob.sha256) == output.encode()
        assert len(result.data.detail.output) < 70_000

    async def test_a_text_that_cannot_be_stored_is_refused_alone_and_the_turn_goes_on(self, rig, turn):
        rig.session.say("\ud800")
        rig.session.emit(Notice(message="after"))
        await rig.logged("notice")
        await end(rig)
        assert "event_refused" in [item.code for item in rig.host.diagnostics.recent]
        assert rig.reasons() == ["completed"]

    @pytest.mark.parametrize("first", [TurnCompleted, TurnCanceled, TurnFailed])
    async def test_of_two_terminals_the_first_counts(self, rig, turn, first):
        made = {TurnCompleted: {}, TurnCanceled: {"reason": "r"}, TurnFailed: {"error": "e"}}[first]
        rig.session.emit(first(turn_id=turn, **made), TurnCompleted(turn_id=turn), TurnFailed(turn_id=turn, error="x"))
        await rig.agent.when_idle()
        assert len(rig.of("turn/end")) == 1

    async def test_what_comes_after_its_terminal_does_not_count(self, rig, turn):
        await end(rig)
        length = len(rig.agent.session)
        rig.session.say("ghost", turn=turn)
        rig.session.emit(ToolStarted(call_id="late", name="sh", turn_id=turn))
        await rig.settle()
        assert not [e for e in rig.events[length:] if e.type.startswith(("assistant/", "tool/", "turn/"))]

    async def test_a_call_without_an_id_is_dropped_and_a_terminal_status_is_sticky(self, rig, turn):
        rig.session.emit(ToolStarted(call_id="", name="sh", turn_id=turn))
        rig.session.emit(ToolFinished(call_id="c", name="sh", turn_id=turn, status="failed"))
        rig.session.emit(ToolProgress(call_id="c", name="sh", turn_id=turn))
        rig.session.emit(ToolFinished(call_id="c", name="sh", turn_id=turn))
        await end(rig)
        assert [event.type for event in rig.of("tool/")] == ["tool/call", "tool/result"]
        result = rig.of("tool/result")[0].data
        assert (result.status, result.error) == ("failed", "the tool failed")

    async def test_of_unknown_messages_of_a_kind_twenty_are_kept_and_the_rest_is_counted(self, rig, turn):
        rig.session.emit(*(Raw(kind="odd", payload=n, turn_id=turn) for n in range(50)))
        await end(rig)
        kept = [event.data.payload for event in rig.of("raw")]
        assert kept == [*range(20), {"more": 30}]

    async def test_a_message_that_was_streamed_is_completed_by_its_rest_only(self, rig, turn):
        rig.session.say("hello ", message_id="m")
        rig.session.emit(MessageDone(message_id="m", text="hello world", turn_id=turn))
        rig.session.emit(MessageDone(message_id="n", text="unstreamed", turn_id=turn))
        await end(rig)
        pieces = [(event.data.message_id, event.data.text, event.data.final) for event in rig.of("assistant/message")]
        assert pieces == [("m", "hello ", False), ("m", "world", True), ("n", "unstreamed", True)]

    async def test_an_answer_of_the_provider_while_ours_is_on_its_way_is_not_logged_twice(self, rig, turn):
        from greenroom.providers import PermissionAllow, PermissionRequest, PermissionRequested

        async def slowly(session, request_id, response):
            session.emit(PermissionResolved(request_id=request_id, response=PermissionDeny(), by="system"))
            await rig.settle()

        rig.provider.responding = slowly
        rig.session.emit(PermissionRequested(request=PermissionRequest(id="q", name="sh"), turn_id=turn))
        await rig.logged("permission/asked")
        await rig.agent.respond("q", PermissionAllow())
        await end(rig)
        [answered] = rig.of("permission/answered")
        assert (answered.data.by, answered.data.response) == ("user", PermissionAllow())
        with pytest.raises(AgentError, match="allowed by user"):
            await rig.agent.respond("q", PermissionDeny())

    async def test_a_provider_that_will_not_close_keeps_its_lease_and_may_be_tried_again(self, rig):
        async def stuck(session):
            raise ProviderError("pid 7 does not end")

        rig.provider.closing = stuck
        with pytest.raises(DisposeFailed, match="pid 7"):
            await rig.handle.dispose()
        assert (await rig.host.sessions.store.entry(rig.agent.id)).owner is not None
        with pytest.raises(DisposeFailed):
            await rig.host.agents.resume(rig.agent.id, owner=rig.host.scope)
        rig.provider.closing = _closed
        await rig.handle.dispose()
        await rig.host.agents.resume(rig.agent.id, owner=rig.host.scope)

    async def test_a_provider_that_hangs_at_close_is_given_up_in_bounded_time(self, rig):
        rig.provider.closing = hang
        before = anyio.current_time()
        with pytest.raises(DisposeFailed):
            await rig.handle.dispose()
        assert anyio.current_time() - before <= 40
        rig.provider.closing = _closed
        await rig.handle.dispose()

    async def test_a_start_that_raises_anything_fails_the_turn_with_its_words(self, rig):
        async def broken(session, request):
            raise KeyError("missing")

        rig.provider.starting = broken
        rig.agent.followup("go")
        await rig.agent.when_idle()
        assert rig.agent.state == Failed("'missing'")

    async def test_events_from_before_the_publication_are_logged_after_it_and_those_of_a_failed_one_are_not(self, rig):
        async def early(session):
            session.link.emit(TurnStarted(turn_id="early"))
            session.link.emit(TurnCompleted(turn_id="early"))

        rig.provider.opening = early
        await rig.create()
        await rig.logged("turn/end")
        assert rig.types() == ["turn/start", "turn/end"]


async def _closed(_session) -> None:
    """Close without any trouble."""


HOOKS = [
    "agent_setup",
    "agent_session_start",
    "agent_disposed",
    "agent_status",
    "agent_error",
    "agent_inbox_inserted",
    "agent_inbox_claimed",
    "agent_inbox_discarded",
    "normalize_tool_call",
    "turn_stopping",
    "pre_step",
    "permission_request",
]


@pytest.mark.parametrize("hook", HOOKS)
async def test_a_plugin_that_raises_in_any_hook_leaves_the_agent_in_order(rig, hook):
    async def raises_later(self, **_told):
        raise ValueError(hook)

    def raises(self, **_told):
        raise ValueError(hook)

    names = rig.host.hooks.caller(hook).spec.arguments
    body = raises_later if hook in {"turn_stopping", "pre_step", "permission_request"} else raises
    namespace: dict = {"body": body}
    prefix = "async " if body is raises_later else ""
    call = f"{'await ' if prefix else ''}body(self)"
    exec(f"{prefix}def {hook}(self, {', '.join(names)}):\n    return {call}", namespace)
    plugin = type("Broken", (), {hook: hookimpl(namespace[hook])})()
    await rig.host.load(plugin, name="broken")
    if hook == "agent_setup":
        with pytest.raises(Exception, match="agent_setup"):
            await rig.create()
        return
    rig.agent.inject("context", plugin="p")
    rig.agent.send("dropped", "next-turn", wake=False)
    rig.agent.inbox.clear()
    rig.provider.starting = accept
    rig.agent.followup("go")
    if hook != "pre_step":
        await rig.logged("turn/accepted")
        rig.session.emit(ToolStarted(call_id="c", name="sh", turn_id=rig.session.turn))
        rig.session.end()
    await rig.agent.when_idle()
    expected = {"pre_step": ["error"], "turn_stopping": ["error"]}.get(hook, ["completed"])
    assert rig.reasons() == expected
    await rig.host.unload("broken")
    rig.provider.starting = answer
    assert (await rig.agent.run("again")).text == "ok"


class TestStore:
    async def test_a_full_disk_in_the_middle_of_a_turn_stops_it_and_says_so(self, rig, turn):
        heard = []

        class Listener:
            @hookimpl
            def agent_error(self, agent, error, turn, step):
                heard.append(str(error))

        await rig.host.load(Listener(), name="listener")
        session = rig.agent.session
        plain = session.room

        async def full():
            raise StoreStalled("disk full")

        session.room = full
        rig.session.say("x")
        await rig.until(lambda: heard)
        assert "disk full" in heard[0]
        await rig.until(lambda: rig.session.interrupts)
        session.room = plain
        await rig.agent.when_idle()
        assert rig.reasons() == ["aborted"]


class Stored:
    def __init__(self, medium) -> None:
        self.store = MemoryStore(medium)

    @hookimpl
    def session_store(self, settings):
        return self.store


class Job:
    """A plugin whose background job for an agent ends while the agent is at rest, and says so."""

    def __init__(self, policy: str) -> None:
        self.policy = policy
        self.go = anyio.Event()
        self.done = anyio.Event()

    @hookimpl
    def agent_created(self, agent):
        agent.scope.spawn(self._work, agent)

    async def _work(self, agent):
        await self.go.wait()
        agent.inject("the job is done", policy=self.policy, plugin="job")
        self.done.set()


@pytest.mark.parametrize("policy", ["park", "own_turn"])
async def test_what_a_background_job_says_at_the_last_moment_stands_in_the_next_request_after_a_resume(policy):
    medium, job = Medium(), Job(policy)
    provider = ScriptedProvider()
    plugins = {"driver": greenroom_driver, "scripted": ScriptedPlugin(provider), "store": Stored(medium), "job": job}
    async with Host(load_settings(), discovery=False, plugins=plugins) as host:
        handle = await host.agents.create(AgentSpec(id="x"), owner=host.scope)
        await handle.agent.run("go")
        await handle.agent.when_idle()
        job.go.set()
        await job.done.wait()
    again = ScriptedProvider()
    plugins = {"driver": greenroom_driver, "scripted": ScriptedPlugin(again), "store": Stored(medium)}
    async with Host(load_settings(), discovery=False, plugins=plugins) as host:
        handle = await host.agents.resume("x", owner=host.scope)
        await handle.agent.run("next")
        [request] = again.session.requests
        assert [message.content[0].text for message in request.messages] == ["the job is done", "next"]


async def test_a_reader_that_is_too_fast_waits_for_room(rig):
    rig.provider.starting = accept
    link = rig.session.link
    for _ in range(10_001):
        link.emit(TextDelta(text="x", message_id="m", turn_id="own"))
    waited = []

    async def read():
        await link.room()
        waited.append(len(rig.agent._driver.pump._box))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read)
    assert waited[0] <= 10_000
    link.emit(TextDelta(text="y" * (17 * 1024 * 1024), message_id="m", turn_id="own"))
    with anyio.move_on_after(0) as scope:
        await link.room()
    assert scope.cancelled_caught or len(rig.agent._driver.pump._box) == 0
    rig.session.emit(TurnCompleted(turn_id="own"))
    await rig.agent.when_idle()
