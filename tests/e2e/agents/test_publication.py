"""Creating and resuming: everything or nothing, in one order."""

from __future__ import annotations

import anyio
import pytest

from greenroom import CallContext, Host, hookimpl, load_settings
from greenroom.agents import (
    Abort,
    AgentClosed,
    AgentError,
    CreationAborted,
    NoFactory,
    agent_of,
    current_initiator,
    with_initiator,
)
from greenroom.errors import GreenroomError, HookError, NameTaken, ScopeClosed
from greenroom.sessions import Event, SessionExists, SessionNotFound
from greenroom.sessions.vocabulary import Message, Text, UserSource
from greenroom_testing import ScriptedPlugin

from .conftest import spec
from .echo import EchoDriver, EchoFactory, EchoPlugin

pytestmark = pytest.mark.anyio


class Witness:
    """Writes down what it hears, in order, and raises or calls where a test says so."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.at: dict[str, object] = {}

    def _hear(self, what: str, *arguments) -> None:
        self.heard.append(what)
        call = self.at.get(what)
        if call is not None:
            call(*arguments)

    @hookimpl
    def session_created(self, session):
        self._hear("session_created", session)

    @hookimpl
    def agent_created(self, agent):
        self._hear("agent_created", agent)

    @hookimpl
    def agent_session_start(self, agent, source):
        self._hear(f"start {source}", agent)

    @hookimpl
    def agent_disposed(self, agent):
        self._hear("agent_disposed", agent)

    @hookimpl
    def session_disposed(self, session):
        self._hear("session_disposed", session)

    @hookimpl
    def agent_setup(self, agent):
        self._hear("agent_setup", agent)


@pytest.fixture
async def witness(host) -> Witness:
    made = Witness()
    await host.load(made, name="witness")
    return made


@pytest.fixture
async def owner(host):
    """A scope that a test may end."""
    scope = host.scope.child("owner")
    await scope.open()
    return scope


def nothing_left(host, session_id: str = "x") -> None:
    assert host.agents.get(session_id) is None
    assert host.sessions.get(session_id) is None
    assert host.agents._pipeline.lives == {}
    assert "agent" not in [effect.label.partition(" ")[0] for effect in host.effects().children]


async def create(host, **fields):
    fields = {"id": "x", **fields}
    setup, cancel, owner = fields.pop("setup", None), fields.pop("cancel", None), fields.pop("owner", host.scope)
    return await host.agents.create(spec(**fields), owner=owner, setup=setup, cancel=cancel)


def fail(error: BaseException):
    def raises(*_arguments):
        raise error

    return raises


def run_soon(host, call):
    """What a listener that is no coroutine does to call one."""
    return lambda *_arguments: host.scope.spawn(call)


class TestCreate:
    @pytest.mark.behaviour("D-390")
    async def test_the_callers_id_is_used_and_nothing_else_need_be_given(self, host):
        agent = (await create(host)).agent
        assert agent.id == agent.session.id == "x"
        header = agent.session.header
        assert (header.cwd, header.parent_session, header.origin) == (None, None, None)

    @pytest.mark.behaviour("D-391")
    async def test_an_id_that_is_taken_is_refused_without_an_orphan(self, host):
        first = (await create(host)).agent
        with pytest.raises(SessionExists):
            await create(host)
        assert host.agents.list() == [first]
        assert list(host.sessions.list()) == [first.session]

    async def test_an_id_that_only_the_store_knows_is_refused(self, host):
        handle = await create(host)
        await handle.agent.run("hello")
        await handle.dispose()
        with pytest.raises(SessionExists):
            await create(host)

    @pytest.mark.behaviour("D-395", "D-416")
    async def test_setup_runs_unseen_then_a_complete_world_is_published_in_one_order(self, host, witness):
        seen = []

        async def setup(agent):
            witness.heard.append("setup")
            await anyio.lowlevel.checkpoint()
            seen.append((host.agents.get("x"), host.sessions.get("x")))
            return lambda: witness.heard.append("commit")

        witness.at["session_created"] = lambda _session: seen.append(host.agents.get("x") is not None)
        await create(host, setup=setup)
        assert witness.heard == [
            "agent_setup",
            "setup",
            "commit",
            "session_created",
            "agent_created",
            "start startup",
        ]
        assert seen == [(None, None), True]

    @pytest.mark.behaviour("D-394")
    async def test_agent_session_start_says_startup_or_resume(self, host, witness):
        handle = await create(host)
        await handle.agent.run("hello")
        await handle.dispose()
        await host.agents.resume("x", owner=host.scope)
        assert [what for what in witness.heard if what.startswith("start")] == ["start startup", "start resume"]

    @pytest.mark.behaviour("D-397", "D-427")
    @pytest.mark.parametrize("where", ["setup", "commit", "hook"])
    async def test_a_refusal_in_agent_setup_or_commit_publishes_nothing_and_frees_the_id(self, host, witness, where):
        error = ValueError("no")
        undone = []

        def setup(agent):
            agent.scope.undo(lambda: undone.append("scope"))
            if where == "setup":
                raise error
            return fail(error) if where == "commit" else None

        if where == "hook":
            witness.at["agent_setup"] = fail(error)
        with pytest.raises(HookError if where == "hook" else ValueError):
            await create(host, setup=setup)
        assert "agent_created" not in witness.heard
        assert undone == ([] if where == "hook" else ["scope"])
        nothing_left(host)
        witness.at.clear()
        assert (await create(host)).agent.id == "x"

    async def test_setup_may_not_drive_the_agent(self, host):
        def setup(agent):
            with pytest.raises(AgentClosed, match="not published"):
                agent.followup("too early")

        await create(host, setup=setup)

    @pytest.mark.behaviour("D-284")
    @pytest.mark.parametrize("limit", [0, -1, 1.5, float("nan"), 2**53, True])
    async def test_a_bad_limit_of_tokens_is_refused_before_anything(self, host, witness, limit):
        with pytest.raises(ValueError, match="positive integer"):
            await create(host, max_output_tokens=limit)
        assert witness.heard == []
        nothing_left(host)

    @pytest.mark.behaviour("D-428")
    async def test_a_bad_seed_is_refused_before_either_object_is_published(self, host, witness):
        with pytest.raises(GreenroomError, match=r"seed\[0\]"):
            await create(host, seed=[Event(5, 0, "turn/start", b"{}")])
        assert witness.heard == []
        nothing_left(host)

    @pytest.mark.behaviour("D-421")
    async def test_a_preparation_that_fails_leaves_no_state(self, host, provider, monkeypatch):
        monkeypatch.setattr(EchoDriver, "open", _refuse_to_open)  # the tiny factory opens no provider
        provider.opening = _refuse_to_open
        with pytest.raises(GreenroomError, match="no binary"):
            await create(host)
        nothing_left(host)


async def _refuse_to_open(_session):
    raise GreenroomError("no binary")


class TestAnnounce:
    @pytest.mark.behaviour("D-208", "D-429")
    @pytest.mark.parametrize("what", ["session_created", "agent_created"])
    async def test_a_listener_that_raises_rolls_back_and_is_paired_with_a_farewell(self, host, witness, what):
        witness.at[what] = fail(ValueError("veto"))
        closed = []
        with pytest.raises(ExceptionGroup, match="vetoed"):
            await create(host, setup=lambda agent: agent.scope.undo(lambda: closed.append("scope")) and None)
        assert closed == ["scope"]
        farewells = [heard for heard in witness.heard if heard.endswith("disposed")]
        assert farewells == (
            ["session_disposed"] if what == "session_created" else ["agent_disposed", "session_disposed"]
        )
        nothing_left(host)

    @pytest.mark.behaviour("D-389", "D-410")
    async def test_an_error_of_any_kind_rolls_back_and_is_raised_as_it_is(self, host):
        class Odd(BaseException):
            pass

        odd = Odd("strange")
        with pytest.raises(Odd) as raised:
            await create(host, setup=fail(odd))
        assert raised.value is odd
        nothing_left(host)

    @pytest.mark.behaviour("D-209", "D-212")
    async def test_what_listeners_of_agent_disposed_raise_is_contained_one_by_one(self, host, witness):
        other = Witness()
        await host.load(other, name="other")
        for listener in (witness, other):
            listener.at["agent_disposed"] = fail(ValueError("bye"))
            listener.at["session_disposed"] = fail(ValueError("bye"))
        await (await create(host)).dispose()
        for listener in (witness, other):
            assert listener.heard[-2:] == ["agent_disposed", "session_disposed"]
        assert sum(item.code == "hook_failed" for item in host.diagnostics.recent) == 4

    @pytest.mark.behaviour("D-425")
    async def test_an_owner_that_goes_while_listeners_hear_keeps_both_entries_until_they_have_heard(
        self, host, witness, owner
    ):
        late = Witness()
        await host.load(late, name="late")
        seen = []
        witness.at["agent_created"] = run_soon(host, owner.aclose)
        late.at["agent_created"] = lambda agent: seen.append(
            (host.agents.get("x") is agent, host.sessions.get("x") is agent.session, agent.scope.stopping)
        )
        handle = await create(host, owner=owner)
        assert seen == [(True, True, False)]
        await owner.aclose()
        assert handle.agent.scope.stopping
        nothing_left(host)

    @pytest.mark.behaviour("D-211")
    async def test_agent_created_may_ask_for_a_detach_which_waits_for_the_dispatch(self, host, witness):
        late = Witness()
        await host.load(late, name="late")
        entries = host.agents._pipeline.entries
        seen = []
        witness.at["agent_created"] = lambda agent: entries._live["x"].detach()
        late.at["agent_created"] = lambda agent: seen.append(host.agents.get("x") is agent)
        with pytest.raises(AgentError, match="left while it was announced"):
            await create(host)
        assert seen == [True]
        assert late.heard[-2:] == ["agent_disposed", "session_disposed"]
        nothing_left(host)

    @pytest.mark.behaviour("D-426")
    @pytest.mark.parametrize("what", ["session_created", "agent_created", "start startup"])
    async def test_liveness_is_checked_again_after_each_announcement(self, host, witness, what):
        abort = Abort()
        witness.at[what] = lambda *_arguments: abort.abort("enough")
        with pytest.raises(CreationAborted):
            await create(host, cancel=abort)
        order = ["session_created", "agent_created", "start startup"]
        announced = [heard for heard in witness.heard if heard in order]
        assert announced == order[: order.index(what) + 1]
        nothing_left(host)

    @pytest.mark.behaviour("D-210")
    async def test_a_stale_or_repeated_detach_cannot_remove_a_successor(self, host):
        first = await create(host)
        await first.agent.run("hello")
        stale = host.agents._pipeline.entries._live["x"]
        await first.dispose()
        second = (await host.agents.resume("x", owner=host.scope)).agent
        stale.detach()
        stale.detach()
        assert host.agents.get("x") is second

    @pytest.mark.behaviour("D-205")
    async def test_entries_are_told_of_and_leave_with_their_owner(self, host, witness, owner):
        await create(host, owner=owner)
        assert host.agents.get("x") is not None
        await owner.aclose()
        assert witness.heard[-2:] == ["agent_disposed", "session_disposed"]
        nothing_left(host)

    @pytest.mark.behaviour("D-206")
    async def test_an_agent_whose_id_is_not_its_sessions_is_refused(self, host):
        agent = (await create(host)).agent

        class Impostor:
            id = "other"
            session = agent.session

        with pytest.raises(AgentError, match="does not have the id"):
            host.agents._pipeline.entries.enter(Impostor())


class TestGivingUp:
    @pytest.mark.behaviour("D-405", "D-408")
    async def test_a_signal_that_was_given_before_publishes_nothing(self, host, witness):
        abort = Abort()
        abort.abort()
        with pytest.raises(CreationAborted):
            await create(host, cancel=abort)
        assert witness.heard == []
        nothing_left(host)

    @pytest.mark.behaviour("D-405")
    @pytest.mark.parametrize("reason", ["a word", 7, ValueError("an error")])
    async def test_a_signal_in_the_middle_of_setup_rejects_with_its_reason(self, host, reason):
        abort = Abort()

        async def setup(agent):
            abort.abort(reason)
            await anyio.sleep_forever()

        with pytest.raises(CreationAborted) as given_up:
            await create(host, setup=setup, cancel=abort)
        assert str(reason).strip("'") in str(given_up.value.__cause__)
        nothing_left(host)

    @pytest.mark.behaviour("D-405")
    async def test_a_setup_that_gives_the_signal_itself_and_returns_is_rejected_too(self, host):
        abort = Abort()
        with pytest.raises(CreationAborted):
            await create(host, setup=lambda agent: abort.abort(), cancel=abort)
        nothing_left(host)

    @pytest.mark.behaviour("D-418")
    async def test_after_the_return_the_signal_has_no_power(self, host):
        abort = Abort()
        agent = (await create(host, cancel=abort)).agent
        abort.abort("too late")
        await anyio.wait_all_tasks_blocked()
        assert host.agents.get("x") is agent
        assert (await agent.run("hello")).reason.kind == "completed"

    @pytest.mark.behaviour("D-398", "D-419")
    async def test_an_owner_that_goes_during_setup_prevents_the_publication(self, host, witness, owner):
        inside = anyio.Event()

        async def setup(agent):
            inside.set()
            await anyio.sleep_forever()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_expect_abort, create(host, setup=setup, owner=owner))
            await inside.wait()
            await owner.aclose()
            assert "agent_created" not in witness.heard
            nothing_left(host)
        assert (await create(host)).agent.id == "x"

    @pytest.mark.behaviour("D-399", "D-443")
    async def test_an_owner_that_goes_ends_a_hanging_preparation_and_frees_the_id(self, host, owner):
        inside = anyio.Event()
        store = host.sessions.store
        plain = store.create

        async def hanging(header, **options):
            lease = await plain(header, **options)
            inside.set()
            try:
                await anyio.sleep_forever()
            finally:
                await lease.release()

        store.create = hanging
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_expect_abort, create(host, owner=owner))
            await inside.wait()
            await owner.aclose()
            nothing_left(host)
        store.create = plain
        assert (await create(host)).agent.id == "x"

    @pytest.mark.behaviour("D-400", "D-419")
    async def test_unloading_the_factory_ends_a_preparation_and_later_ones_find_none(self, host):
        inside = anyio.Event()

        async def setup(agent):
            inside.set()
            await anyio.sleep_forever()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_expect_abort, create(host, setup=setup))
            await inside.wait()
            await host.unload("driver")
            nothing_left(host)
        with pytest.raises(NoFactory, match="no plugin drives agents"):
            await create(host)

    @pytest.mark.behaviour("D-409", "D-420")
    async def test_a_signal_while_the_scope_is_made_skips_setup_and_waits_for_the_clean_up(self, host):
        abort, order = Abort(), []
        prepare = host.agents._slot.take()[0].prepare

        class Slow:
            async def prepare(self, session, scope, options):
                scope.undo(lambda: order.append("cleaned"))
                abort.abort()
                return await prepare(session, scope, options)

        host.agents._slot._filled = (Slow(), host.agents._slot._filled[1])
        with pytest.raises(CreationAborted):
            await create(host, cancel=abort, setup=lambda agent: order.append("setup"))
        assert order == ["cleaned"]
        nothing_left(host)

    @pytest.mark.behaviour("D-422")
    async def test_a_factory_that_goes_while_its_preparation_raises_waits_for_the_clean_up(self, host):
        inside, go, order = anyio.Event(), anyio.Event(), []

        class Slow:
            async def prepare(self, session, scope, options):
                async def undo():
                    inside.set()
                    await go.wait()
                    order.append("cleaned")

                scope.undo(undo)
                raise ValueError("no")

        host.agents._slot._filled = (Slow(), host.agents._slot._filled[1])

        async def unload():
            await host.unload("driver")
            order.append("unloaded")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_expect, ValueError, create(host))
            await inside.wait()
            tasks.start_soon(unload)
            await anyio.wait_all_tasks_blocked()
            assert order == []
            go.set()
        assert order == ["cleaned", "unloaded"]

    async def test_a_caller_that_is_cancelled_leaves_nothing(self, host):
        async def setup(agent):
            await anyio.sleep_forever()

        with anyio.move_on_after(0.05):
            await create(host, setup=setup)
        nothing_left(host)


async def _expect(kind, awaitable) -> None:
    with pytest.raises(kind):
        await awaitable


async def _expect_abort(awaitable) -> None:
    with pytest.raises((CreationAborted, ScopeClosed)):
        await awaitable


@pytest.mark.behaviour("D-417")
async def test_of_two_creations_of_one_id_exactly_one_wins_and_the_other_leaves_nothing(host):
    results = []

    async def one():
        try:
            results.append((await create(host)).agent)
        except SessionExists as error:
            results.append(error)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(one)
        tasks.start_soon(one)
    winners = [result for result in results if not isinstance(result, SessionExists)]
    assert len(results) == 2
    assert winners == [host.agents.get("x")]
    assert len(host.agents._pipeline.lives) == 1


class TestWorld:
    @pytest.mark.behaviour("D-411")
    async def test_the_scope_of_an_agent_carries_it_and_other_scopes_carry_none(self, host):
        agent = (await create(host)).agent
        assert agent_of(agent.scope) is agent
        assert agent_of(host.scope) is None

    @pytest.mark.behaviour("D-207", "D-412")
    async def test_agents_that_an_agents_scope_creates_are_its_children_whatever_the_order(self, host):
        parent = (await create(host)).agent
        other = (await create(host, id="other")).agent
        child = (await create(host, id="child", owner=parent.scope)).agent
        assert host.agents.owner_of(child) is parent
        assert list(host.agents.children(parent)) == [child]
        assert list(host.agents.roots()) == [parent, other]
        assert host.agents.is_owned_by(child, parent)
        assert not host.agents.is_owned_by(child, other)

    @pytest.mark.behaviour("D-412")
    async def test_a_scope_makes_agents_that_end_with_it(self, host, owner):
        parent = (await owner.agents.create(spec(id="parent"))).agent
        child = (await parent.scope.agents.create(spec(id="child"))).agent
        assert child.owner is parent
        await child.run("hello")
        fork = (await parent.scope.agents.fork(child)).agent
        assert fork.session.header.parent_session == "child"
        await owner.aclose()
        assert host.agents.list() == []
        again = (await host.scope.agents.resume("child")).agent
        assert again.owner is None

    @pytest.mark.behaviour("D-413")
    async def test_what_is_added_to_an_agent_lives_and_dies_with_it(self, host):
        undone = []
        handle = await create(host, setup=lambda agent: agent.scope.undo(lambda: undone.append(1)) and None)
        assert undone == []
        await handle.dispose()
        assert undone == [1]

    @pytest.mark.behaviour("D-414")
    async def test_agent_status_and_disposed_listeners_of_an_agents_scope_hear_their_own_agent_only(self, host):
        heard = []

        class Listener:
            @hookimpl
            def agent_disposed(self, agent):
                heard.append(agent.id)

        async def setup(agent):
            await agent.mount(Listener())

        handle = await create(host, setup=setup)
        other = await create(host, id="other")
        await other.dispose()
        assert heard == []
        child = await create(host, id="child", owner=handle.agent.scope)
        await child.dispose()
        assert heard == ["child"]

    @pytest.mark.behaviour("D-415")
    async def test_the_world_is_complete_before_the_start_is_told(self, host, witness):
        seen = []
        witness.at["start startup"] = lambda agent: seen.append(
            (agent.scope.effects().count() > 0, host.agents.get("x"))
        )
        agent = (await create(host, setup=lambda agent: agent.scope.undo(lambda: None, label="mine") and None)).agent
        assert seen == [(True, agent)]

    @pytest.mark.behaviour("D-423")
    async def test_the_factory_is_a_co_owner_of_each_agent(self, host, owner):
        one, two = await create(host), await create(host, id="two", owner=owner)
        await host.unload("driver")
        assert one.agent.scope.stopping
        assert two.agent.scope.stopping
        nothing_left(host)

    @pytest.mark.behaviour("D-215")
    async def test_without_a_factory_creating_and_resuming_say_what_to_install(self):
        async with Host(load_settings(), discovery=False) as host:
            for attempt in (host.agents.create(spec(), owner=host.scope), host.agents.resume("x", owner=host.scope)):
                with pytest.raises(NoFactory) as missing:
                    await attempt
                assert "greenroom-driver" in missing.value.hint

    @pytest.mark.behaviour("D-216")
    async def test_a_second_agent_factory_is_refused_with_both_names_and_the_slot_clears_with_its_owner(self, host):
        record = await host.load(EchoPlugin(), name="second")
        assert record.state == "failed"
        assert "driver" in record.error
        assert "second" in record.error
        await host.unload("driver")
        assert (await host.load(EchoPlugin(), name="second")).state == "active"
        assert (await create(host)).agent

    @pytest.mark.behaviour("D-216")
    def test_the_slot_itself_refuses_a_second_one(self):
        from greenroom.agents import FactorySlot

        class FakeScope:
            label = "plugin one"
            plugin = "one"

            def undo(self, call, label):
                return call

        slot = FactorySlot()
        clear = slot.fill(FakeScope(), EchoFactory())
        with pytest.raises(NameTaken, match="plugin one"):
            slot.fill(FakeScope(), EchoFactory())
        clear()
        slot.fill(FakeScope(), EchoFactory())

    @pytest.mark.behaviour("D-424")
    async def test_a_caller_that_knows_only_the_registry_uses_everything_the_factory_needs(self, host):
        handle = await create(host)
        assert (await handle.agent.run("hello")).reason.kind == "completed"

    @pytest.mark.behaviour("D-431")
    async def test_adding_to_a_disposed_agent_is_refused(self, host):
        handle = await create(host)
        await handle.dispose()
        for attempt in (lambda: handle.agent.scope.undo(lambda: None), lambda: handle.agent.scope.child("late")):
            with pytest.raises(ScopeClosed):
                attempt()

    @pytest.mark.behaviour("D-432")
    async def test_a_custom_driver_dispatches_hooks_about_its_agent_which_the_subject_decides(self, host):
        heard = []

        class Listener:
            @hookimpl
            async def pre_step(self, ctx, messages):
                heard.append((ctx.agent, len(messages)))

        await host.load(Listener(), name="listener")
        agent = (await create(host)).agent
        message = Message("m", (Text("hi"),), UserSource())
        await host.hooks.pre_step(CallContext(scope=agent.scope, agent=agent.id), (message,))
        assert heard == [("x", 1)]

    @pytest.mark.behaviour("D-290")
    async def test_a_childs_setup_runs_on_behalf_of_its_parent_and_the_caller_keeps_its_own(self, host):
        parent = (await create(host)).agent
        seen = []

        async def setup(agent):
            seen.append(current_initiator())
            await anyio.lowlevel.checkpoint()
            seen.append(current_initiator())

        with with_initiator(parent):
            await create(host, id="child", owner=parent.scope, setup=setup)
            assert current_initiator() is parent
        await create(host, id="root", setup=setup)
        assert seen == [parent, parent, None, None]


class TestMount:
    async def test_a_mounted_plugin_is_activated_heard_and_leaves_with_its_agent(self, host):
        order = []

        class Mounted:
            @hookimpl
            def activate(self, scope):
                scope.undo(lambda: order.append("undone"))

            @hookimpl
            def agent_created(self, agent):
                order.append("created")

        async def setup(agent):
            await agent.mount(Mounted())

        handle = await create(host, setup=setup)
        await create(host, id="other")
        assert order == ["created"]
        await handle.dispose()
        assert order == ["created", "undone"]
        assert not host.hooks.agent_created.wanted

    async def test_a_mounted_plugin_that_fails_leaves_nothing(self, host):
        class Broken:
            @hookimpl
            def activate(self, scope):
                raise ValueError("no")

            @hookimpl
            def agent_created(self, agent): ...

        agent = (await create(host)).agent
        count = agent.scope.effects().count()
        with pytest.raises(HookError):
            await agent.mount(Broken())
        assert agent.scope.effects().count() == count
        assert not host.hooks.agent_created.wanted


class TestEnd:
    @pytest.mark.behaviour("D-433")
    async def test_what_is_seen_of_an_end_is_scope_then_agent_then_session(self, host, witness, owner):
        await create(
            host, owner=owner, setup=lambda agent: agent.scope.undo(lambda: witness.heard.append("scope")) and None
        )
        witness.heard.clear()
        await owner.aclose()
        assert witness.heard == ["scope", "agent_disposed", "session_disposed"]

    @pytest.mark.behaviour("D-434")
    @pytest.mark.parametrize("first", ["handle", "owner"])
    async def test_handle_and_owner_share_one_end_whichever_comes_first(self, host, witness, owner, first):
        handle = await create(host, owner=owner)
        calls = [handle.dispose, owner.aclose]
        if first == "owner":
            calls.reverse()
        async with anyio.create_task_group() as tasks:
            for call in calls:
                tasks.start_soon(call)
        assert witness.heard.count("agent_disposed") == 1
        nothing_left(host)

    @pytest.mark.behaviour("D-396", "D-435")
    @pytest.mark.parametrize("way", ["create", "resume"])
    async def test_disposing_retires_what_the_owner_held(self, host, owner, way):
        handle = await create(host, owner=owner)
        if way == "resume":
            await handle.agent.run("hello")
            await handle.dispose()
            handle = await host.agents.resume("x", owner=owner)
        assert owner.effects().count() > 0
        await handle.dispose()
        assert owner.effects().count() == 0

    @pytest.mark.behaviour("D-436", "D-441")
    async def test_an_id_opens_again_when_the_old_scope_is_quiet_and_that_wait_can_be_cancelled(self, host):
        go, order = anyio.Event(), []

        async def slow():
            await go.wait()
            order.append("quiet")

        handle = await create(host, setup=lambda agent: agent.scope.undo(slow, grace=None) and None)
        await handle.agent.run("hello")
        handle.request_dispose()
        await anyio.wait_all_tasks_blocked()
        with anyio.move_on_after(0.02) as scope:
            await host.agents.resume("x", owner=host.scope)
        assert scope.cancelled_caught

        async def resume():
            await host.agents.resume("x", owner=host.scope)
            order.append("resumed")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(resume)
            await anyio.wait_all_tasks_blocked()
            go.set()
        assert order == ["quiet", "resumed"]

    async def test_an_agent_cannot_wait_for_its_own_end_but_asks_for_it(self, host):
        handle = await create(host)
        with with_initiator(handle.agent), pytest.raises(AgentError, match="has been requested"):
            await handle.dispose()
        await handle.dispose()
        nothing_left(host)


class TestResume:
    @pytest.fixture
    def plugins(self, plugins, stored):
        return {**plugins, "store": stored()}

    @pytest.mark.behaviour("D-403")
    async def test_history_and_numbers_go_on_without_a_gap_or_a_double(self, host):
        handle = await create(host)
        await handle.agent.run("one")
        await handle.dispose()
        agent = (await host.agents.resume("x", owner=host.scope)).agent
        await agent.run("two")
        events = await agent.session.events()
        assert [event.seq for event in events] == list(range(len(events)))
        assert [event.data.turn for event in events if event.type == "turn/start"] == [1, 2]

    @pytest.mark.behaviour("D-393")
    async def test_a_session_without_a_directory_resumes_without_one(self, host):
        handle = await create(host)
        await handle.agent.run("one")
        await handle.dispose()
        assert (await host.agents.resume("x", owner=host.scope)).agent.session.header.cwd is None

    @pytest.mark.behaviour("D-392")
    async def test_resuming_cannot_repair_a_turn_that_a_live_agent_owns(self, host):
        agent = (await create(host)).agent
        await agent.run("one")
        length = len(agent.session)
        with pytest.raises(SessionExists, match="live here"):
            await host.agents.resume("x", owner=host.scope)
        assert len(agent.session) == length

    @pytest.mark.behaviour("D-404")
    async def test_resuming_what_no_store_has_is_refused_clearly(self, host):
        with pytest.raises(SessionNotFound):
            await host.agents.resume("nobody", owner=host.scope)
        nothing_left(host, "nobody")

    @pytest.mark.behaviour("D-406")
    async def test_a_restored_preparation_is_given_back_if_the_factory_is_gone(self, host):
        handle = await create(host)
        await handle.agent.run("one")
        await handle.dispose()
        inside = anyio.Event()

        async def setup(agent):
            inside.set()
            await anyio.sleep_forever()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_expect_abort, host.agents.resume("x", owner=host.scope, setup=setup))
            await inside.wait()
            await host.unload("driver")
        assert (await host.sessions.store.entry("x")).owner is None

    @pytest.mark.behaviour("D-401")
    async def test_a_forked_session_keeps_lineage_seed_and_depth_over_a_resume(self, host):
        parent = (await create(host, delegation_depth=2)).agent
        await parent.run("one")
        handle = await host.agents.fork(parent, owner=host.scope, child_id="child")
        length = handle.agent.session.header.seed_length
        await handle.agent.run("two")
        await handle.dispose()
        child = (await host.agents.resume("child", owner=host.scope)).agent
        header = child.session.header
        assert (header.parent_session, header.origin, header.seed_length) == ("x", "fork", length)
        assert child.session.state.last_turn == 2
        assert child.owner is None

    @pytest.mark.behaviour("D-402")
    async def test_parked_context_survives_a_resume_without_a_turn_of_its_own(self, host):
        handle = await create(host)
        await handle.agent.run("one")
        handle.agent.inject("a notice", plugin="test")
        await handle.dispose()
        agent = (await host.agents.resume("x", owner=host.scope)).agent
        assert [message.content[0].text for message in agent.inbox.next_step] == ["a notice"]
        assert agent.session.state.last_turn == 1

    @pytest.mark.behaviour("D-444")
    async def test_a_resumed_agent_stands_below_its_owner(self, host, owner):
        handle = await create(host)
        await handle.agent.run("one")
        await handle.dispose()
        await host.agents.resume("x", owner=owner)
        assert "agent x" in [child.label for child in owner.effects().children]

    async def test_a_session_that_was_composed_by_its_creator_warns_when_it_is_resumed_without(self, host):
        handle = await create(host, setup=lambda agent: None)
        await handle.agent.run("one")
        await handle.dispose()
        await host.agents.resume("x", owner=host.scope)
        assert "setup_missing" in [item.code for item in host.diagnostics.recent]


@pytest.mark.behaviour("D-292")
async def test_closing_the_host_waits_for_its_agents_before_it_forgets_who_asked(plugins):
    seen = []

    async with Host(load_settings(), discovery=False, plugins=plugins) as host:
        handle = await create(host)

        async def last_words():
            with with_initiator(handle.agent):
                seen.append(current_initiator())

        handle.agent.scope.undo(last_words)
    assert seen == [handle.agent]
    with pytest.raises(GreenroomError), with_initiator(handle.agent):
        pass


def test_the_scripted_provider_is_a_plugin(provider):
    assert ScriptedPlugin(provider).providers()[0].id == "scripted"
