"""Questions of live agents as front ends see them, and what answers where nobody can be asked."""

from __future__ import annotations

from contextlib import asynccontextmanager

import anyio
import pytest

import greenroom_driver
from greenroom import Host, load_settings
from greenroom.agents import AgentDirectory, AgentError, AgentSpec, HeadlessPolicy
from greenroom.providers import (
    PermissionAction,
    PermissionAllow,
    PermissionDeny,
    PermissionRequest,
    PermissionRequested,
    PermissionResolved,
    ProviderError,
    RuntimeInfo,
)
from greenroom.sessions import Medium
from greenroom_manager import ManagerPlugin
from greenroom_manager._permissions import NOBODY, Policy
from greenroom_manager._settings import PermissionSettings
from greenroom_testing import ScriptedPlugin, ScriptedProvider, accept

from .house import JUMPING, Store

pytestmark = pytest.mark.anyio

PLAN = PermissionRequest(
    id="plan", name="plan", kind="plan", actions=(PermissionAction("go", "Go on", "allow", "primary"),)
)
SH, WEB = PermissionRequest(id="sh", name="Bash"), PermissionRequest(id="web", name="WebFetch")


@pytest.fixture(scope="module", params=["asyncio", JUMPING], ids=["asyncio", "trio"])
def anyio_backend(request):
    return request.param


class Scene:
    def __init__(self, host, provider):
        self.host, self.provider = host, provider
        self.directory = host.service(AgentDirectory)

    async def ask(self, *requests):
        """A live agent whose provider has asked inside a turn."""
        agent = await self.directory.create(AgentSpec(id="a"))
        self.provider.starting = accept
        agent.followup("go")
        await agent.started()
        self.emit(*requests)
        await agent.flush()
        return agent

    def emit(self, *requests):
        session = self.provider.session
        for request in requests:
            session.emit(PermissionRequested(request=request, turn_id=session.turn))

    async def record(self):
        await self.directory._book.flush("a")
        return (await self.directory.find("a")).record


async def until(condition):
    with anyio.fail_after(5):
        while True:
            if condition():
                return
            await anyio.sleep(0.01)


@asynccontextmanager
async def opened(folder, table="", medium=None):
    provider = ScriptedProvider()
    file = folder / "greenroom.toml"
    file.write_text(table)
    plugins = {
        "driver": greenroom_driver,
        "scripted": ScriptedPlugin(provider),
        "store": Store(medium or Medium()),
        "manager": ManagerPlugin(),
    }
    async with Host(load_settings(user_file=file), discovery=False, plugins=plugins) as host:
        assert [record.error for record in host.plugins()] == [None] * 4
        yield Scene(host, provider)


@pytest.fixture
async def scene(anyio_backend, tmp_path):
    async with opened(tmp_path) as live:
        yield live


class TestState:
    async def test_a_subscriber_that_comes_late_is_given_the_questions_that_wait(self, scene):
        await scene.ask(SH, WEB)
        async with scene.directory.subscribe("a") as changes:
            first = await anext(changes)
            assert [question.id for question in first.snapshot.questions] == ["sh", "web"]
            await scene.directory.respond("a", "sh", PermissionAllow())
            with anyio.fail_after(5):
                while len((change := await anext(changes)).snapshot.questions) == 2:
                    pass
            assert [question.id for question in change.snapshot.questions] == ["web"]

    async def test_every_subscriber_sees_that_another_one_has_answered(self, scene):
        await scene.ask(SH)
        async with scene.directory.subscribe("a") as one, scene.directory.subscribe() as other:
            await anext(one), await anext(other)
            await scene.directory.respond("a", "sh", PermissionDeny(message="no"))
            for changes in (one, other):
                with anyio.fail_after(5):
                    while (await anext(changes)).snapshot.questions:
                        pass

    async def test_a_question_is_in_the_log_before_anybody_answers(self, tmp_path, anyio_backend):
        medium = Medium()
        async with opened(tmp_path, medium=medium) as scene:
            await scene.ask(SH)
            stored = await scene.host.sessions.store.read_from("a", types=["permission/asked"])
            assert [event.data.request for event in stored] == [SH]

    async def test_the_same_answer_again_is_harmless_and_another_one_is_refused(self, scene):
        await scene.ask(SH)
        await scene.directory.respond("a", "sh", PermissionAllow())
        await scene.directory.respond("a", "sh", PermissionAllow())
        with pytest.raises(AgentError, match="allowed by user"):
            await scene.directory.respond("a", "sh", PermissionDeny())
        assert len(scene.provider.session.responses) == 1

    async def test_an_answer_to_no_question_or_to_another_agents_is_refused(self, scene):
        await scene.ask(SH)
        await scene.directory.create(AgentSpec(id="b"))
        for agent_id, name in (("a", "nothing"), ("b", "sh")):
            with pytest.raises(AgentError, match="no question"):
                await scene.directory.respond(agent_id, name, PermissionAllow())
        with pytest.raises(AgentError, match="no action"):
            await scene.directory.respond("a", "sh", PermissionAllow(action="other"))
        await scene.directory.close("a")
        with pytest.raises(AgentError, match="not live"):
            await scene.directory.respond("a", "sh", PermissionAllow())


class TestApproval:
    async def approve(self, scene):
        async def change(session, request_id, response):
            session.provider.info = RuntimeInfo(model="planner", mode="edits", features={"fast": True})
            session.emit(PermissionResolved(request_id=request_id, response=response))
            await anyio.lowlevel.checkpoint()

        scene.provider.responding = change
        await scene.directory.respond("a", "plan", PermissionAllow(action="go"))

    @pytest.mark.behaviour("P-174", "P-180")
    async def test_after_a_plan_was_approved_its_new_mode_is_shown_and_kept(self, scene):
        agent = await scene.ask(PLAN)
        assert agent.session.state.config.mode == "default"
        await self.approve(scene)
        assert agent.session.state.config.mode == "edits"
        record = await scene.record()
        assert (record.runtime.mode, record.settings.mode) == ("edits", "edits")
        await scene.directory.close("a")
        scene.provider.info = RuntimeInfo()
        await scene.directory.open("a")
        assert scene.provider.opened[-1].mode == "edits"

    @pytest.mark.behaviour("P-175")
    async def test_features_and_what_is_in_use_are_read_anew_and_kept_and_no_question_waits(self, scene):
        await scene.ask(PLAN)
        await self.approve(scene)
        snapshot = await scene.directory.find("a")
        assert snapshot.questions == ()
        record = await scene.record()
        assert record.runtime.model == "planner"
        assert record.settings.features == {"fast": True}

    @pytest.mark.behaviour("P-176")
    async def test_whoever_sees_the_question_closed_has_seen_the_new_mode(self, scene):
        await scene.ask(PLAN)
        seen = []
        agent = scene.host.agents.get("a")
        undo = agent.session.observe(
            lambda event: seen.append((event.type, agent.session.state.config.mode, list(agent.questions)))
        )
        await self.approve(scene)
        undo()
        told = [(mode, open_) for kind, mode, open_ in seen if kind in ("agent/config", "permission/answered")]
        assert told[0] == ("edits", ["plan"])
        assert [open_ for _mode, open_ in told].count([]) == 1
        assert told[-1] == ("edits", [])


class TestPolicy:
    @pytest.mark.parametrize(
        ("settings", "request_", "answer"),
        [
            ({}, SH, PermissionDeny(message=NOBODY)),
            ({"headless": "allow-list", "allow": ["Bash"]}, SH, PermissionAllow()),
            ({"headless": "allow-list", "allow": ["mcp__*", "B*"]}, SH, PermissionAllow()),
            ({"headless": "allow-list", "allow": ["bash"]}, SH,
             PermissionDeny(message=f"{NOBODY}, and Bash is not on the list")),
            ({"headless": "allow-list", "allow": ["*"]}, PLAN,
             PermissionDeny(message=f"{NOBODY}, and plan is not on the list")),
            ({"headless": "fail"}, SH,
             PermissionDeny(message=f"{NOBODY}, and the policy is to fail: Bash", interrupt=True)),
        ],
    )  # fmt: skip
    def test_it_denies_or_follows_the_list_or_ends_the_turn(self, settings, request_, answer):
        assert Policy(PermissionSettings(**settings)).answer(request_) == answer

    def test_denying_is_the_default_and_the_list_alone_allows_nothing(self):
        assert isinstance(Policy(PermissionSettings(allow=("*",))).answer(SH), PermissionDeny)

    async def test_the_settings_reach_it(self, tmp_path, anyio_backend):
        table = '[plugins.manager.permissions]\nheadless = "allow-list"\nallow = ["Bash"]\n'
        async with opened(tmp_path, table) as scene:
            policy = scene.host.service(HeadlessPolicy)
            assert policy.answer(SH) == PermissionAllow()
            assert isinstance(policy.answer(WEB), PermissionDeny)

    async def test_a_word_that_is_no_policy_fails_the_plugin(self, tmp_path, anyio_backend):
        with pytest.raises(AssertionError, match="headless"):
            async with opened(tmp_path, '[plugins.manager.permissions]\nheadless = "perhaps"\n'):
                pass


class TestPatience:
    async def test_a_question_that_nobody_answers_in_time_is_answered_by_the_policy(self, tmp_path, anyio_backend):
        async with opened(tmp_path, "[plugins.manager.permissions]\nwait = 0.2\n") as scene:
            agent = await scene.ask(SH)
            await until(lambda: not agent.questions)
            [event] = await agent.session.events(types=["permission/answered"])
            assert (event.data.by, event.data.response) == ("policy", PermissionDeny(message=NOBODY))

    async def test_one_that_was_answered_in_time_is_left_alone(self, tmp_path, anyio_backend):
        async with opened(tmp_path, "[plugins.manager.permissions]\nwait = 0.1\n") as scene:
            agent = await scene.ask(SH)
            await scene.directory.respond("a", "sh", PermissionAllow())
            await anyio.sleep(0.3)
            assert scene.provider.session.responses == [("sh", PermissionAllow())]
            assert not agent.questions

    async def test_a_provider_that_refuses_the_policy_is_reported_and_the_agent_goes_on(self, tmp_path, anyio_backend):
        async def refuse(*_):
            raise ProviderError("not now")

        async with opened(tmp_path, "[plugins.manager.permissions]\nwait = 0\n") as scene:
            scene.provider.responding = refuse
            agent = await scene.ask(SH)
            await until(lambda: "policy_not_answered" in [entry.code for entry in scene.host.diagnostics.recent])
            scene.provider.session.end()
            await agent.when_idle()

    async def test_with_no_such_setting_a_question_waits_as_long_as_it_takes(self, scene):
        agent = await scene.ask(SH)
        await anyio.wait_all_tasks_blocked()
        assert list(agent.questions) == ["sh"]
