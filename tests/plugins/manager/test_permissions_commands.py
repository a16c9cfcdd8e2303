"""`greenroom permissions`, against another host that drives the agents."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from types import SimpleNamespace

import msgspec
import pytest

import greenroom_driver
from greenroom import Host, hookimpl, load_settings
from greenroom.agents import AgentDirectory, AgentSpec, HostClient
from greenroom.errors import GreenroomError
from greenroom.providers import (
    PermissionAction,
    PermissionAllow,
    PermissionDeny,
    PermissionRequest,
    PermissionRequested,
    PermissionResponse,
)
from greenroom.sessions import Medium
from greenroom_manager import ManagerPlugin
from greenroom_manager.cli._answers import Answer, give, input_of, list_questions
from greenroom_testing import ScriptedPlugin, ScriptedProvider, accept

from .house import Store

pytestmark = pytest.mark.anyio

ALLOW = PermissionAction("allow", "Allow", "allow")


class Owner:
    """The host that drives the agents, as another process sees it."""

    def __init__(self, host: Host):
        self.host, self.calls, self.broken = host, [], None
        self.directory = host.service(AgentDirectory)

    async def call(self, method, **params):
        self.calls.append((method, params))
        if self.broken is not None:
            raise self.broken
        agent = self.host.agents.get(params["agent"])
        if method == "permissions.list":
            rows = [{"agent": agent.id, "request": msgspec.to_builtins(q)} for q in agent.questions.values()]
            return {"questions": rows}
        behavior = method.removeprefix("permissions.")
        said = {name: value for name, value in params.items() if name not in ("agent", "request")}
        response = msgspec.convert({"behavior": behavior, **said}, PermissionResponse)
        await self.directory.respond(agent.id, params["request"], response)
        return {}


class Client:
    """A plugin that finds the owner."""

    def __init__(self):
        self.owner_host = None

    @hookimpl
    def activate(self, scope):
        scope.provide(HostClient, self)

    @asynccontextmanager
    async def owner(self, session_id):
        known = self.owner_host is not None and self.owner_host.host.agents.get(session_id) is not None
        yield self.owner_host if known else None


class Scene:
    def __init__(self, owner, provider, client, store):
        self.owner, self.provider, self.client = owner, provider, client
        plugins = {"driver": greenroom_driver, "manager": ManagerPlugin(), "store": Store(store)}
        if client is not None:
            plugins["client"] = client

        @asynccontextmanager
        async def open_host():
            async with Host(load_settings(), discovery=False, plugins=plugins) as mine:
                yield mine

        self.state = SimpleNamespace(host=open_host)

    async def ask(self, *requests, agent_id="a"):
        agent = self.owner.host.agents.get(agent_id) or await self.owner.directory.create(AgentSpec(id=agent_id))
        if not agent.questions:
            self.provider.starting = accept
            agent.followup("go")
            await agent.started()
        for request in requests:
            self.provider.session.emit(PermissionRequested(request=request, turn_id=self.provider.session.turn))
        await agent.flush()
        return agent


@asynccontextmanager
async def scene(*, client=True):
    provider, medium = ScriptedProvider(), Medium()
    plugins = {
        "driver": greenroom_driver,
        "scripted": ScriptedPlugin(provider),
        "manager": ManagerPlugin(),
        "store": Store(medium),
    }
    async with Host(load_settings(), discovery=False, plugins=plugins) as host:
        finder = Client() if client else None
        made = Scene(Owner(host), provider, finder, medium)
        if finder is not None:
            finder.owner_host = made.owner
        yield made


@pytest.fixture
async def stage(anyio_backend):
    async with scene() as made:
        yield made


SH = PermissionRequest(id="q1", name="sh", title="Run", input={"command": "ls"}, actions=(ALLOW,))
WEB = PermissionRequest(id="q2", name="web")


async def test_the_questions_of_all_agents_are_listed(stage, capsys):
    await stage.ask(SH)
    await stage.ask(WEB, agent_id="b")
    assert await list_questions(stage.state, None, False) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.split()[:2] == ["a", "q1"] and "Run: ls" in line and "allow" in line for line in lines)
    assert any(line.split()[:2] == ["b", "q2"] for line in lines)


async def test_as_json_each_question_is_whole(stage, capsys):
    await stage.ask(SH, WEB)
    await list_questions(stage.state, "a", True)
    rows = json.loads(capsys.readouterr().out)
    assert [(row["agent"], row["request"]["id"]) for row in rows] == [("a", "q1"), ("a", "q2")]
    assert msgspec.convert(rows[0]["request"], PermissionRequest) == SH


async def test_with_nothing_to_answer_it_says_so(stage, capsys):
    assert await list_questions(stage.state, None, False) == 0
    assert "no agent waits" in capsys.readouterr().out


async def test_the_only_question_is_allowed_without_its_name(stage, capsys):
    agent = await stage.ask(SH)
    await give(stage.state, "last", None, Answer("allow", action="allow"), False)
    assert stage.provider.session.responses == [("q1", PermissionAllow(action="allow"))]
    assert not agent.questions
    assert "q1 of agent a allowed" in capsys.readouterr().out


async def test_of_several_the_one_that_is_named_is_denied_with_its_reason(stage, capsys):
    agent = await stage.ask(SH, WEB)
    await give(stage.state, "a", "q2", Answer("deny", message="no web", interrupt=True), True)
    assert stage.provider.session.responses == [("q2", PermissionDeny(message="no web", interrupt=True))]
    assert list(agent.questions) == ["q1"]
    assert json.loads(capsys.readouterr().out) == {"agent": "a", "request": "q2", "answer": "denied"}


async def test_of_several_one_must_be_named(stage):
    await stage.ask(SH, WEB)
    with pytest.raises(GreenroomError, match="2 answers") as caught:
        await give(stage.state, "a", None, Answer("allow"), False)
    assert caught.value.hint == "q1, q2"
    assert stage.provider.session.responses == []


@pytest.mark.parametrize("answer", [Answer("allow", action="nonsense"), Answer("allow", updated_input={"a": "\ud800"})])
async def test_an_answer_that_does_not_fit_is_refused_there_and_the_question_stays(stage, answer):
    agent = await stage.ask(SH)
    with pytest.raises(GreenroomError, match="q1"):
        await give(stage.state, "a", "q1", answer, False)
    assert list(agent.questions) == ["q1"]


async def test_an_agent_that_nobody_drives_asks_nothing(stage):
    await stage.ask(SH)
    await stage.owner.directory.close("a")
    with pytest.raises(GreenroomError, match="driven by nobody"):
        await give(stage.state, "a", "q1", Answer("allow"), False)


async def test_without_a_way_to_the_owner_it_says_who_drives_the_agent(anyio_backend):
    async with scene(client=False) as stage:
        await stage.ask(SH)
        with pytest.raises(GreenroomError, match="is driven by"):
            await give(stage.state, "a", "q1", Answer("allow"), False)


async def test_a_host_that_does_not_answer_hides_no_other_question(stage, capsys):
    await stage.ask(SH)
    stage.owner.broken = GreenroomError("the connection broke")
    assert await list_questions(stage.state, None, False) == 0
    assert "the connection broke" in capsys.readouterr().err


def test_answers_go_into_the_input():
    assert input_of(None, ["Colour=Blue", "Size=S=M"]) == {"answers": {"Colour": "Blue", "Size": "S=M"}}
    assert input_of('{"a": 1}', ["x=y"]) == {"a": 1, "answers": {"x": "y"}}
    assert input_of(None, []) is None


@pytest.mark.parametrize(("given", "answers"), [("{", []), ("[]", []), (None, ["x"]), (None, ["=x"])])
def test_what_is_no_input_is_refused(given, answers):
    with pytest.raises(GreenroomError):
        input_of(given, answers)
