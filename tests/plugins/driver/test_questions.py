"""Questions of the provider: answered once, by whom, and what is seen before the answer."""

from __future__ import annotations

import anyio
import pytest

from greenroom.agents import AgentError
from greenroom.providers import (
    PermissionAction,
    PermissionAllow,
    PermissionDeny,
    PermissionRequest,
    PermissionRequested,
    PermissionResolved,
    ProviderError,
    RuntimeInfo,
    TurnFailed,
)
from greenroom_testing import accept

from .jumping import JUMPING

pytestmark = pytest.mark.anyio

PLAN = PermissionRequest(
    id="q",
    name="plan",
    kind="plan",
    actions=(
        PermissionAction("go", "Go on", "allow"),
        PermissionAction("no", "Keep planning", "deny"),
    ),
)


@pytest.fixture(scope="module", params=["asyncio", JUMPING], ids=["asyncio", "trio"])
def anyio_backend(request):
    return request.param


@pytest.fixture
async def asked(rig):
    """A rig whose provider has asked inside a turn."""
    rig.provider.starting = accept
    rig.agent.followup("go")
    await rig.logged("turn/accepted")
    rig.session.emit(PermissionRequested(request=PLAN, turn_id=rig.session.turn))
    await rig.logged("permission/asked")
    return rig


async def end(rig) -> None:
    rig.session.end()
    await rig.agent.when_idle()


class TestOneAnswer:
    async def test_the_same_answer_again_does_nothing(self, asked):
        await asked.agent.respond("q", PermissionAllow(action="go"))
        await asked.agent.respond("q", PermissionAllow(action="go"))
        assert asked.session.responses == [("q", PermissionAllow(action="go"))]
        assert len(asked.of("permission/answered")) == 1

    async def test_another_answer_is_refused_and_says_who_gave_the_first(self, asked):
        await asked.agent.respond("q", PermissionDeny(), by="policy")
        with pytest.raises(AgentError, match="denied by policy"):
            await asked.agent.respond("q", PermissionAllow())
        assert len(asked.session.responses) == 1

    @pytest.mark.behaviour("P-178")
    async def test_a_second_answer_while_the_first_is_on_its_way_is_rejected(self, asked):
        arrived = anyio.Event()

        async def slowly(_session, _request_id, _response):
            await arrived.wait()

        asked.provider.responding = slowly
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(asked.agent.respond, "q", PermissionAllow())
            await asked.settle()
            with pytest.raises(ProviderError, match="being answered"):
                await asked.agent.respond("q", PermissionDeny())
            arrived.set()
        [answered] = asked.of("permission/answered")
        assert answered.data.response == PermissionAllow()

    async def test_a_question_that_nobody_asked_cannot_be_answered(self, asked):
        with pytest.raises(ProviderError, match="no question 'other'"):
            await asked.agent.respond("other", PermissionAllow())

    @pytest.mark.behaviour("P-177")
    @pytest.mark.parametrize("echo", [False, True], ids=["silent", "with an answer of its own"])
    async def test_after_an_answer_that_the_provider_refused_the_next_one_is_free(self, asked, echo):
        async def refuse(session, request_id, _response):
            if echo:
                session.emit(PermissionResolved(request_id=request_id, response=PermissionDeny(), by="system"))
            await asked.settle()
            raise ProviderError("not now")

        asked.provider.responding = refuse
        with pytest.raises(ProviderError, match="not now"):
            await asked.agent.respond("q", PermissionAllow())
        if echo:  # the buffered one was used, once
            assert [event.data.by for event in asked.of("permission/answered")] == ["system"]
            asked.session.emit(PermissionRequested(request=PLAN, turn_id=asked.session.turn))
            await asked.logged("permission/asked", 2)
        asked.provider.responding = _take
        await asked.agent.respond("q", PermissionAllow())
        assert asked.of("permission/answered")[-1].data.by == "user"
        assert not asked.agent.questions


class TestValidation:
    @pytest.mark.parametrize(
        ("response", "told"),
        [
            (PermissionAllow(action="nonsense"), "no action 'nonsense'"),
            (PermissionAllow(action="no"), "does not allow"),
            (PermissionDeny(action="go"), "does not deny"),
            (PermissionAllow(updated_input={"n": float("nan")}), "no JSON"),
            (PermissionAllow(updated_input={"n": "\ud800"}), "no JSON"),
            (PermissionDeny(message="x" * (1 << 20)), "bytes"),
        ],
    )
    async def test_an_answer_that_does_not_fit_reaches_nobody_and_the_question_stays(self, asked, response, told):
        with pytest.raises(AgentError, match=told):
            await asked.agent.respond("q", response)
        assert asked.session.responses == []
        assert list(asked.agent.questions) == ["q"]
        await asked.agent.respond("q", PermissionAllow(action="go"))
        assert not asked.agent.questions


class TestWhatIsSeen:
    @pytest.mark.behaviour("P-175", "P-176")
    async def test_what_an_approval_changed_is_logged_before_the_answer_even_if_the_provider_spoke_first(self, asked):
        async def approve(session, request_id, response):
            session.provider.info = RuntimeInfo(model="scripted-1", mode="edits", features={"fast": True})
            session.emit(PermissionResolved(request_id=request_id, response=response))
            await asked.settle()

        asked.provider.responding = approve
        await asked.agent.respond("q", PermissionAllow(action="go"))
        news = [event for event in asked.events if event.seq > asked.of("permission/asked")[0].seq]
        assert [event.type for event in news] == ["agent/config", "agent/config", "permission/answered"]
        config = asked.agent.session.state.config
        assert (config.mode, config.features) == ("edits", {"fast": True})
        assert not asked.agent.questions

    async def test_an_answer_is_logged_although_what_is_in_use_cannot_be_found_out(self, asked, monkeypatch):
        async def broken(_self):
            raise RuntimeError("no idea")

        monkeypatch.setattr(type(asked.session), "runtime_info", broken)
        await asked.agent.respond("q", PermissionAllow())
        assert [event.data.by for event in asked.of("permission/answered")] == ["user"]

    async def test_a_turn_that_fails_meanwhile_does_not_turn_our_answer_into_a_denial(self, asked, monkeypatch):
        async def late(session):
            session.emit(TurnFailed(turn_id=session.turn, error="crash"))
            await asked.settle()
            return RuntimeInfo()

        monkeypatch.setattr(type(asked.session), "runtime_info", late)
        await asked.agent.respond("q", PermissionAllow())
        assert asked.reasons() == ["error"]
        [answered] = asked.of("permission/answered")
        assert (answered.data.response, answered.data.by) == (PermissionAllow(), "user")

    @pytest.mark.behaviour("X-006")
    async def test_a_question_before_the_turn_is_accepted_is_seen_and_its_answer_lets_the_start_return(self, rig):
        answered = anyio.Event()

        async def ask_first(session, _request):
            session.emit(PermissionRequested(request=PLAN, turn_id=session.turn))
            await answered.wait()

        async def take(_session, _request_id, _response):
            answered.set()

        rig.provider.starting, rig.provider.responding = ask_first, take
        rig.agent.followup("go")
        await rig.logged("permission/asked")
        assert not rig.of("turn/accepted")
        await rig.agent.respond("q", PermissionAllow())
        await rig.logged("turn/accepted")
        await end(rig)
        assert rig.reasons() == ["completed"]


class TestWhatFollows:
    @pytest.mark.behaviour("P-179")
    async def test_a_prompt_that_follows_an_answer_replaces_what_runs(self, asked):
        async def and_then(_session, _request_id, _response):
            return "implement it"

        asked.provider.responding = and_then
        await asked.agent.respond("q", PermissionAllow(action="go"))
        await asked.logged("turn/accepted", 2)
        await end(asked)
        assert asked.reasons() == ["aborted", "completed"]
        assert asked.of("turn/end")[0].data.reason.cause == "replaced"
        message = asked.of("user/message")[1].data.message
        assert (message.content[0].text, type(message.source).__name__) == ("implement it", "SystemSource")

    @pytest.mark.behaviour("P-181")
    @pytest.mark.parametrize("how", ["failed", "canceled"])
    async def test_a_turn_that_fails_or_is_canceled_denies_what_is_pending_for_it(self, asked, how):
        second = PermissionRequest(id="r", name="sh")
        asked.session.emit(PermissionRequested(request=second, turn_id=asked.session.turn))
        await asked.logged("permission/asked", 2)
        if how == "failed":
            asked.session.emit(TurnFailed(turn_id=asked.session.turn, error="crash"))
        else:
            await asked.agent.cancel()
        await asked.agent.when_idle()
        assert not asked.agent.questions
        answers = [event.data for event in asked.of("permission/answered")]
        why = {"failed": "turn failed", "canceled": "interrupted"}[how]
        assert [(a.request_id, a.response, a.by) for a in answers] == [
            (name, PermissionDeny(message=why), "system") for name in ("q", "r")
        ]

    async def test_a_question_outside_of_a_turn_ends_with_the_process_that_asked(self, rig):
        rig.session.emit(PermissionRequested(request=PLAN))
        await rig.logged("permission/asked")
        await rig.agent.reopen()
        assert not rig.agent.questions
        assert rig.of("permission/answered")[0].data.by == "system"


async def _take(_session, _request_id, _response) -> None:
    return None
