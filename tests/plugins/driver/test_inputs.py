"""Send, followup, steer, inject; status; maintenance."""

from __future__ import annotations

import itertools

import anyio
import anyio.lowlevel
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from greenroom import Host, block, hookimpl, load_settings
from greenroom.agents import (
    AgentBusy,
    AgentClosed,
    AgentError,
    AgentOptions,
    Cause,
    InboxError,
    current_initiator,
)
from greenroom.errors import GreenroomError
from greenroom.providers import ProviderError, RuntimeInfo, ToolFinished, ToolStarted, TurnCompleted, TurnStarted
from greenroom.sessions import EventRefused, Message, StoreStalled
from greenroom.sessions.vocabulary import PluginSource, Text, UserSource
from greenroom_testing import ScriptedPlugin, ScriptedProvider, accept, answer

from .rig import Rig, plain_driver

pytestmark = pytest.mark.anyio


class Listener:
    """Writes down what it hears, and calls what a test wants called."""

    def __init__(self) -> None:
        self.heard: list[tuple] = []
        self.on: dict[str, object] = {}

    def _hear(self, what: str, *told) -> None:
        self.heard.append((what, *told))
        call = self.on.get(what if what != "status" else told[0])
        if call is not None:
            call()

    @hookimpl
    def agent_status(self, agent, status):
        self._hear("status", status)

    @hookimpl
    def agent_error(self, agent, error, turn, step):
        self._hear("error", str(error), turn, step)

    @hookimpl
    def agent_inbox_inserted(self, agent, message):
        self._hear("inserted", message)

    @hookimpl
    def agent_inbox_claimed(self, agent, message, turn):
        self._hear("claimed", message, turn)

    @hookimpl
    def agent_inbox_discarded(self, agent, message):
        self._hear("discarded", message)

    def all(self, what: str) -> list[tuple]:
        return [told for kind, *told in self.heard if kind == what]


@pytest.fixture
async def listener(rig) -> Listener:
    made = Listener()
    await rig.host.load(made, name="listener")
    return made


def words(messages) -> list[str]:
    return [message.content[0].text for message in messages]


def entered(rig) -> list[str]:
    return words(event.data.message for event in rig.of("user/message", "context/message", "steering/message"))


class TestInject:
    @pytest.mark.behaviour("D-234")
    async def test_parked_at_rest_it_is_durable_and_opens_no_turn(self, rig):
        rig.agent.inject("notice", plugin="p")
        await rig.agent.flush()
        stored = await rig.host.sessions.store.read_from(rig.agent.id, types=["inbox/spliced"])
        assert words(stored[0].data.inserted) == ["notice"]
        assert rig.of("turn/") == []
        assert rig.agent.status == "idle"

    async def test_the_source_of_a_plugin_is_kept(self, rig):
        rig.agent.inject(Message("m", (Text("x"),), PluginSource("p")))
        assert rig.agent.inbox.next_step[0].source == PluginSource("p")

    @pytest.mark.behaviour("D-236")
    async def test_agent_inbox_inserted_and_agent_inbox_claimed_and_agent_inbox_discarded_carry_the_exact_messages(
        self, rig, listener
    ):
        parked = rig.agent.inject("notice", plugin="p")
        waiting = rig.agent.send("later", "next-turn", wake=False)
        rig.agent.inbox.remove(waiting.id)
        prompt = rig.agent.followup("go")
        assert listener.all("inserted") == [[parked], [waiting], [prompt]]
        assert listener.all("discarded") == [[waiting]]
        assert listener.all("claimed") == [[parked, 1], [prompt, 1]]
        await rig.agent.when_idle()

    @pytest.mark.behaviour("D-237")
    async def test_what_is_no_message_is_refused_before_it_is_queued(self, rig):
        length = len(rig.agent.session)
        for bad in (Message("m", (Text(5),), UserSource()), Message("m", (Text("\ud800"),), UserSource())):
            with pytest.raises(EventRefused):
                rig.agent.inject(bad)
        assert len(rig.agent.inbox) == 0
        assert len(rig.agent.session) == length

    async def test_an_id_that_is_pending_is_refused(self, rig):
        rig.agent.inject(Message("m", (Text("x"),), UserSource()))
        with pytest.raises(InboxError):
            rig.agent.followup(Message("m", (Text("y"),), UserSource()))
        assert rig.agent.status == "idle"


class TestInjectTurn:
    """The policy `own_turn`: context is logged at once."""

    def inject(self, rig, text="notice"):
        return rig.agent.inject(text, policy="own_turn", plugin="p")

    @pytest.mark.behaviour("D-242")
    async def test_at_rest_it_is_a_turn_of_its_own_with_the_trigger_injection(self, rig):
        self.inject(rig)
        assert rig.types() == ["turn/start", "context/message", "turn/end"]
        assert rig.of("turn/start")[0].data.trigger.kind == "injection"
        assert rig.reasons() == ["completed"]

    @pytest.mark.behaviour("D-242")
    async def test_in_an_open_turn_it_joins_that_turn(self, rig):
        rig.provider.starting = accept
        rig.agent.followup("go")
        await rig.logged("turn/accepted")
        self.inject(rig)
        assert rig.types()[-1] == "context/message"
        assert len(rig.of("turn/start")) == 1
        rig.session.end()
        await rig.agent.when_idle()

    @pytest.mark.behaviour("D-243")
    @pytest.mark.parametrize("error", [StoreStalled("disk full")])
    async def test_agent_error_hears_of_a_flush_that_fails_and_the_caller_does_not(self, rig, listener, error):
        async def broken(barrier=None):
            raise error

        rig.agent.session.flush = broken
        self.inject(rig)
        await rig.until(lambda: listener.all("error"))
        assert listener.all("error")[0][0] == "disk full"
        assert rig.reasons() == ["completed"]
        del rig.agent.session.flush

    @pytest.mark.behaviour("D-244")
    async def test_a_refused_message_closes_its_turn_and_is_raised_and_the_flush_runs(self, rig):
        flushed = []
        session = rig.agent.session
        plain = session.flush

        async def noted(barrier=None):
            flushed.append(len(session))
            await plain(barrier)

        session.flush = noted
        with pytest.raises(EventRefused):
            rig.agent.inject(Message("m", (Text("\ud800"),), PluginSource("p")), policy="own_turn")
        assert rig.types() == ["turn/start", "turn/end"]
        assert rig.reasons() == ["error"]
        await rig.until(lambda: flushed)
        assert flushed[0] == len(session)

    @pytest.mark.behaviour("D-245")
    async def test_an_observer_that_raises_at_the_end_of_the_turn_does_not_prevent_the_flush(self, rig):
        def raises(event):
            if event.type == "turn/end":
                raise ValueError("no")

        rig.agent.session.observe(raises)
        self.inject(rig)
        await rig.settle()
        stored = await rig.host.sessions.store.read_from(rig.agent.id)
        assert "turn/end" in [event.type for event in stored]

    @pytest.mark.behaviour("D-246")
    async def test_a_source_that_cannot_be_stored_opens_no_turn(self, rig):
        with pytest.raises(EventRefused):
            rig.agent.inject(Message("m", (Text("x"),), PluginSource("\ud800")), policy="own_turn")
        assert rig.of("turn/") == []

    @pytest.mark.behaviour("D-247")
    async def test_the_next_request_holds_it_in_front_of_the_prompt_and_the_one_after_does_not(self, rig):
        self.inject(rig)
        await rig.agent.run("go")
        await rig.agent.run("again")
        assert [words(request.messages) for request in rig.session.requests] == [["notice", "go"], ["again"]]

    @pytest.mark.behaviour("D-248")
    async def test_it_reaches_the_store_without_anybody_asking(self, rig):
        self.inject(rig)
        await rig.settle()
        stored = await rig.host.sessions.store.read_from(rig.agent.id)
        assert "context/message" in [event.type for event in stored]

    @pytest.mark.behaviour("D-249")
    async def test_it_survives_a_resume_and_is_not_taken_for_the_tail_of_a_crash(self, rig):
        await rig.agent.run("first")
        self.inject(rig)
        await rig.handle.dispose()
        handle = await rig.host.agents.resume(rig.agent.id, owner=rig.host.scope)
        assert handle.agent.session.state.last_reason.reason.kind == "completed"
        await handle.agent.run("go")
        assert words(rig.session.requests[0].messages) == ["notice", "go"]

    @pytest.mark.behaviour("D-250")
    async def test_a_disposal_waits_for_its_flush(self, rig):
        self.inject(rig)
        await rig.handle.dispose()
        stored = await rig.host.sessions.store.read_from(rig.agent.id)
        assert [event.type for event in stored if event.type.startswith(("turn/", "context/"))] == [
            "turn/start",
            "context/message",
            "turn/end",
        ]

    @pytest.mark.behaviour("D-252")
    @pytest.mark.parametrize("how", ["cancel", "dispose"])
    async def test_context_that_came_during_an_aborted_batch_is_logged_in_the_same_turn(self, rig, how):
        rig.provider.starting = accept
        rig.agent.followup("go")
        await rig.logged("turn/accepted")
        rig.session.emit(ToolStarted(call_id="c", name="sh", turn_id="turn-1"))
        await rig.logged("tool/call")
        self.inject(rig)
        assert not rig.of("context/message")
        if how == "cancel":
            await rig.agent.cancel(keep_inbox=True)
        else:
            await rig.handle.dispose()
        [context] = rig.of("context/message")
        assert context.seq < rig.of("turn/end")[0].seq
        assert len(rig.of("turn/start")) == 1


class TestHandedOver:
    """Context that is in the log is handed over with the next request, whatever happened in between."""

    @pytest.mark.parametrize("resumed", [True, False])
    @pytest.mark.parametrize("how", ["refused", "open turn"])
    async def test_what_the_provider_has_not_got_goes_along_with_the_next_prompt(self, rig, how, resumed):
        if how == "refused":
            rig.agent.inject("notice", plugin="p")

            async def refuse(session, request):
                raise ProviderError("no")

            rig.provider.starting = refuse
            rig.agent.followup("one")
        else:
            rig.provider.starting = accept
            rig.agent.followup("one")
            await rig.logged("turn/accepted")
            rig.agent.inject("notice", policy="own_turn", plugin="p")
            rig.session.end()
        await rig.agent.when_idle()
        assert [event.data.message.content[0].text for event in rig.of("context/message")] == ["notice"]
        rig.provider.starting = answer
        agent = rig.agent
        if resumed:
            await rig.handle.dispose()
            agent = (await rig.host.agents.resume(rig.agent.id, owner=rig.host.scope)).agent
        await agent.run("two")
        await agent.run("three")
        assert [words(request.messages) for request in rig.provider.all_requests[1:]] == [["notice", "two"], ["three"]]


class TestAfterDisposal:
    @pytest.mark.behaviour("D-251")
    async def test_send_steer_and_inject_raise(self, rig):
        await rig.handle.dispose()
        for attempt in (
            lambda: rig.agent.send("x", "next-turn", wake=True),
            lambda: rig.agent.steer("x"),
            lambda: rig.agent.inject("x"),
            lambda: rig.agent.followup("x"),
        ):
            with pytest.raises(AgentClosed):
                attempt()


class TestStatus:
    @pytest.mark.behaviour("D-232")
    async def test_it_alternates_for_each_agent_apart(self, rig, listener):
        other = Rig(rig.host, rig.provider)
        await other.create()
        heard = []

        class Both:
            @hookimpl
            def agent_status(self, agent, status):
                heard.append((agent.id, status))

        await rig.host.load(Both(), name="both")
        for _ in range(3):
            rig.agent.followup("x")
            other.agent.followup("x")
            await rig.agent.when_idle()
            await other.agent.when_idle()
        for agent in (rig.agent, other.agent):
            mine = [status for name, status in heard if name == agent.id]
            assert mine == ["running", "idle"] * (len(mine) // 2)
            assert len(mine) >= 2

    @pytest.mark.behaviour("D-240")
    async def test_waiting_for_rest_ends_at_once_at_rest_and_else_with_the_activity_here_cancelled(self, rig):
        with anyio.fail_after(1):
            await rig.agent.when_idle()
        rig.provider.starting = accept
        rig.agent.followup("go")
        await rig.logged("turn/accepted")
        waited = []

        async def wait():
            await rig.agent.when_idle()
            waited.append(rig.reasons())

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await rig.settle()
            assert waited == []
            rig.agent.cancel()
        assert waited == [["aborted"]]

    @pytest.mark.behaviour("D-241")
    async def test_a_listener_of_agent_status_that_raises_is_contained_on_both_edges(self, rig, listener):
        def raises():
            raise ValueError("no")

        listener.on = {"running": raises, "idle": raises}
        assert (await rig.agent.run("go")).text == "ok"
        await rig.agent.when_idle()
        assert listener.all("status") == [["running"], ["idle"]]


class TestTurns:
    @pytest.mark.behaviour("D-288")
    @pytest.mark.parametrize("style", ["burst", "sequential", "mixed"])
    async def test_there_is_one_turn_for_each_message_with_rising_numbers(self, rig, style):
        for number in range(6):
            rig.agent.followup(str(number))
            if style == "sequential" or (style == "mixed" and number % 2):
                await rig.agent.when_idle()
        await rig.agent.when_idle()
        assert [event.data.turn for event in rig.of("turn/start")] == [1, 2, 3, 4, 5, 6]
        assert entered(rig) == list("012345")

    @pytest.mark.behaviour("D-253")
    async def test_a_flush_that_fails_after_a_turn_settles_before_the_next_one_starts(self, rig, listener):
        order = []
        session = rig.agent.session
        plain = session.flush
        failures = itertools.count()

        async def flaky(barrier=None):
            if rig.of("turn/end") and next(failures) == 0:
                await anyio.lowlevel.checkpoint()
                order.append(("failed", len(rig.of("turn/start"))))
                raise StoreStalled("disk full")
            await plain(barrier)

        session.flush = flaky
        rig.agent.followup("one")
        rig.agent.followup("two")
        await rig.agent.when_idle()
        assert order == [("failed", 1)]
        assert listener.all("error")[0][0] == "disk full"
        assert rig.reasons() == ["completed", "completed"]

    @pytest.mark.behaviour("D-254")
    async def test_pre_step_may_block_the_only_prompt_which_gives_a_turn_without_a_step_and_no_request(self, rig):
        class Policy:
            @hookimpl
            def pre_step(self, ctx, messages):
                return block("not that")

        await rig.host.load(Policy(), name="policy")
        rig.agent.followup("go")
        await rig.agent.when_idle()
        assert rig.types() == ["turn/start", "turn/end"]
        reason = rig.of("turn/end")[0].data.reason
        assert (reason.kind, reason.by, reason.reason) == ("blocked", "local:policy", "not that")
        assert rig.session.requests == []

    async def test_pre_step_that_raises_ends_the_turn_with_the_name_of_the_plugin_and_keeps_the_queue(self, rig):
        class Broken:
            @hookimpl
            def pre_step(self, ctx, messages):
                raise ValueError("no")

        await rig.host.load(Broken(), name="broken")
        rig.agent.followup("one")
        rig.agent.followup("two")
        await rig.agent.when_idle()
        assert rig.reasons() == ["error"]
        assert "broken" in rig.of("turn/end")[0].data.reason.message
        assert words(rig.agent.inbox.next_turn) == ["two"]

    async def test_pre_step_may_rewrite_and_an_input_that_it_empties_completes_without_a_step(self, rig):
        class Rewriter:
            @hookimpl
            def pre_step(self, ctx, messages):
                return [Message("r", (Text("rewritten"),), UserSource())] if words(messages) == ["go"] else []

        await rig.host.load(Rewriter(), name="rewriter")
        await rig.agent.run("go")
        assert entered(rig) == ["rewritten"]
        rig.agent.followup("drop me")
        await rig.agent.when_idle()
        assert rig.types()[-2:] == ["turn/start", "turn/end"]
        assert rig.reasons() == ["completed", "completed"]

    async def test_turn_stopping_may_queue_more_before_a_turn_closes(self, rig):
        class More:
            @hookimpl
            async def turn_stopping(self, ctx):
                if ctx.turn == 1:
                    rig.agent.followup("more")

        await rig.host.load(More(), name="more")
        await rig.agent.run("go")
        await rig.agent.when_idle()
        assert entered(rig) == ["go", "more"]

    async def test_permission_request_may_answer_in_the_users_place(self, rig):
        from greenroom import allow
        from greenroom.providers import PermissionAllow, PermissionRequest, PermissionRequested

        class Policy:
            @hookimpl
            async def permission_request(self, ctx, request):
                return allow("fine") if request.name == "read" else None

        await rig.host.load(Policy(), name="policy")
        for name in ("read", "write"):
            rig.session.emit(PermissionRequested(request=PermissionRequest(id=name, name=name)))
        await rig.logged("permission/answered")
        assert rig.session.responses == [("read", PermissionAllow())]
        assert rig.of("permission/answered")[0].data.by == "hook:local:policy"
        assert list(rig.agent.questions) == ["write"]

    async def test_normalize_tool_call_gives_calls_their_details(self, rig):
        from greenroom.providers import ShellDetail

        class Normal:
            @hookimpl
            def normalize_tool_call(self, provider, name, input, output):
                return ShellDetail(command=input["line"]) if name == "sh" else None

        await rig.host.load(Normal(), name="normal")
        rig.session.emit(TurnStarted(turn_id="x"))
        rig.session.emit(ToolStarted(call_id="c", name="sh", input={"line": "make"}, turn_id="x"))
        rig.session.emit(ToolFinished(call_id="c", name="sh", turn_id="x"), TurnCompleted(turn_id="x"))
        await rig.agent.when_idle()
        assert rig.of("tool/call")[0].data.detail == ShellDetail(command="make")

    @pytest.mark.behaviour("D-289")
    async def test_each_driver_acts_on_behalf_of_its_own_agent(self, rig):
        other = Rig(rig.host, rig.provider)
        await other.create()
        seen = []

        async def starting(session, request):
            seen.append((session.request.session_id, current_initiator().id))
            return await answer(session, request)

        rig.provider.starting = starting
        rig.agent.followup("x")
        other.agent.followup("x")
        await rig.agent.when_idle()
        await other.agent.when_idle()
        assert len(seen) == 2
        assert all(mine == initiator for mine, initiator in seen)

    @pytest.mark.behaviour("D-285")
    async def test_a_limit_of_tokens_reaches_the_provider(self, rig):
        await rig.create(options={"max_output_tokens": 123})
        assert rig.provider.opened[-1].max_output_tokens == 123

    async def test_what_was_chosen_is_what_is_opened_and_the_last_choice_counts_on_a_resume(self, rig):
        rig.provider.info = RuntimeInfo()
        await rig.create(options={"model": "big", "mode": "plan", "features": {"web": True}})
        opened = rig.provider.opened[-1]
        assert (opened.model, opened.mode, dict(opened.features)) == ("big", "plan", {"web": True})
        await rig.agent.run("go")
        await rig.agent.set_model("bigger")
        await rig.agent.when_idle()
        await rig.handle.dispose()
        handle = await rig.host.agents.resume(rig.agent.id, owner=rig.host.scope)
        assert rig.provider.opened[-1].model == "bigger"
        await handle.dispose()
        await rig.host.agents.resume(rig.agent.id, AgentOptions(model="small"), owner=rig.host.scope)
        assert rig.provider.opened[-1].model == "small"

    async def test_max_tokens_is_how_a_cut_answer_ends(self, rig):
        async def cut(session, request):
            session.emit(TurnCompleted(turn_id=session.turn, max_tokens=True))

        rig.provider.starting = cut
        assert (await rig.agent.run("go")).reason.kind == "max_tokens"


class TestMaintenance:
    @pytest.mark.behaviour("D-286")
    async def test_a_cancel_ends_it_and_what_was_to_wake_up(self, rig):
        inside = anyio.Event()
        ended = []

        async def upkeep():
            inside.set()
            try:
                await anyio.sleep_forever()
            finally:
                ended.append(True)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_expect, AgentError, rig.agent.run_maintenance(upkeep))
            await inside.wait()
            rig.agent.followup("later")
            await rig.agent.cancel()
        assert ended == [True]
        await rig.agent.when_idle()
        assert rig.of("turn/") == []
        assert len(rig.agent.inbox) == 0

    @pytest.mark.behaviour("D-287")
    @pytest.mark.parametrize("removed", [True, False])
    async def test_what_woke_behind_it_is_taken_afterwards_unless_it_was_removed(self, rig, removed):
        async def upkeep():
            message = rig.agent.followup("later")
            assert rig.of("turn/") == []
            if removed:
                rig.agent.inbox.remove(message.id)
            return "done"

        assert await rig.agent.run_maintenance(upkeep) == "done"
        await rig.agent.when_idle()
        assert entered(rig) == ([] if removed else ["later"])

    async def test_it_is_refused_unless_the_agent_is_at_rest_and_shows_no_status(self, rig, listener):
        async def nested():
            with pytest.raises(AgentBusy):
                await rig.agent.run_maintenance(anyio.lowlevel.checkpoint)

        await rig.agent.run_maintenance(nested)
        assert listener.all("status") == []

    async def test_a_turn_that_the_provider_begins_meanwhile_waits(self, rig):
        async def upkeep():
            rig.session.emit(TurnStarted(turn_id="own"))
            await rig.settle()
            assert rig.of("turn/") == []

        await rig.agent.run_maintenance(upkeep)
        await rig.logged("turn/start")
        assert rig.agent.status == "running"
        rig.session.emit(TurnCompleted(turn_id="own"))
        await rig.agent.when_idle()


async def _expect(kind, awaitable) -> None:
    with pytest.raises(kind):
        await awaitable


@pytest.mark.behaviour("D-214")
@pytest.mark.parametrize("kind", ["user", "parent", "hook", "replaced", "provider", "disposed", "boredom", ""])
def test_the_causes_of_a_cancel_are_a_closed_set(kind):
    if kind in {"boredom", ""}:
        with pytest.raises(ValueError, match="no cause"):
            Cause(kind)
    else:
        assert Cause(kind).kind == kind


@pytest.mark.behaviour("D-204")
async def test_agents_are_found_while_their_host_lives(rig):
    assert rig.host.agents.get(rig.agent.id) is rig.agent
    await rig.handle.dispose()
    assert rig.host.agents.get(rig.agent.id) is None


@pytest.mark.behaviour("D-291")
async def test_what_the_provider_says_by_itself_is_said_on_behalf_of_nobody(rig):
    seen = []

    class Normal:
        @hookimpl
        def normalize_tool_call(self, provider, name, input, output):
            seen.append(current_initiator())

    await rig.host.load(Normal(), name="normal")
    rig.session.emit(TurnStarted(turn_id="x"), ToolStarted(call_id="c", name="sh", turn_id="x"))
    await rig.logged("tool/call")
    rig.session.emit(TurnCompleted(turn_id="x"))
    await rig.agent.when_idle()
    assert set(seen) == {None}


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(["followup", "steer", "inject", "wait"]), max_size=8))
@pytest.mark.behaviour("D-288")
def test_any_mix_of_inputs_enters_once_and_in_order_of_its_list(inputs):
    async def main():
        provider = ScriptedProvider()
        plugins = {"driver": plain_driver(), "scripted": ScriptedPlugin(provider)}
        async with Host(load_settings(), discovery=False, plugins=plugins) as host:
            rig = Rig(host, provider)
            await rig.create()
            for number, what in enumerate(inputs):
                if what == "wait":
                    await rig.agent.when_idle()
                else:
                    getattr(rig.agent, what)(f"{what} {number}")
            rig.agent.followup("last")
            await rig.agent.when_idle()
            said = entered(rig)
            assert sorted(said) == sorted([f"{w} {n}" for n, w in enumerate(inputs) if w != "wait"] + ["last"])
            turns = [event.data.turn for event in rig.of("turn/start")]
            assert turns == list(range(1, len(turns) + 1))
            assert len(rig.of("turn/end")) == len(turns)

    anyio.run(main, backend="trio")


async def test_a_message_that_the_log_refuses_raises_to_its_sender_and_starts_nothing(rig):
    with pytest.raises(GreenroomError):
        rig.agent.followup(Message("m", (Text("\ud800"),), UserSource()))
    assert rig.agent.status == "idle"
    rig.provider.starting = _refuse


async def _refuse(session, request):
    raise ProviderError("no")
