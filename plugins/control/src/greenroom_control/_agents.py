"""The methods `agents.…` and `permissions.…`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, Literal, TypeVar

from msgspec import UNSET, Struct, UnsetType

from greenroom.agents import AgentDirectory, AgentOptions, AgentSpec, Cascade
from greenroom.providers import PermissionAllow, PermissionDeny, PermissionResponse
from greenroom.sessions.vocabulary import JsonObject

from ._call import Call, Method
from ._methods import ListAgents, list_agents
from ._views import AgentView, QuestionView, agent_view

T = TypeVar("T")


class AgentParams(Struct, frozen=True, forbid_unknown_fields=True):
    agent: str


class Open(Struct, frozen=True, forbid_unknown_fields=True):
    agent: str
    purpose: Literal["interactive", "history"] = "interactive"


class Create(Struct, frozen=True, forbid_unknown_fields=True):
    provider: str | None = None
    cwd: str | None = None
    id: str | None = None
    model: str | None = None
    mode: str | None = None
    thinking: str | None = None
    features: dict[str, str | bool | None] = {}  # msgspec copies an empty default
    max_output_tokens: int | None = None
    title: str | None = None
    labels: dict[str, str] = {}  # msgspec copies an empty default
    internal: bool = False
    environment: dict[str, str] = {}  # msgspec copies an empty default


class Importable(Struct, frozen=True, forbid_unknown_fields=True):
    provider: str | None = None
    cwd: str | None = None
    query: str | None = None
    limit: int = 200


class Import(Struct, frozen=True, forbid_unknown_fields=True):
    provider: str | None
    native_id: str
    cwd: str | None = None


class Reload(Struct, frozen=True, forbid_unknown_fields=True):
    agent: str
    rehydrate: bool = False


class Rewind(Struct, frozen=True, forbid_unknown_fields=True):
    agent: str
    message: str


class Update(Struct, frozen=True, forbid_unknown_fields=True):
    agent: str
    title: str | None = None
    labels: dict[str, str | None] | None = None


class Configure(Struct, frozen=True, forbid_unknown_fields=True):
    agent: str
    mode: str | UnsetType = UNSET
    model: str | UnsetType | None = UNSET
    thinking: str | UnsetType | None = UNSET
    features: dict[str, str | bool | None] = {}  # msgspec copies an empty default


class Questions(Struct, frozen=True, forbid_unknown_fields=True):
    agent: str | None = None


class Allow(Struct, frozen=True, forbid_unknown_fields=True):
    agent: str
    request: str
    updated_input: JsonObject | None = None
    updated_permissions: tuple[JsonObject, ...] = ()
    action: str | None = None
    by: Literal["user", "policy"] = "user"


class Deny(Struct, frozen=True, forbid_unknown_fields=True):
    agent: str
    request: str
    message: str | None = None
    interrupt: bool = False
    action: str | None = None
    by: Literal["user", "policy"] = "user"


def _path(text: str | None) -> Path | None:
    """A directory of this machine. Raises ValueError unless it is absolute: the host has a directory of its own."""
    if text is None:
        return None
    if not Path(text).is_absolute():
        raise ValueError(f"{text!r} is no absolute path")
    return Path(text)


async def _shown(call: Call[T], agent_id: str) -> dict[str, AgentView]:  # type: ignore[type-var]  # any parameters
    return {"agent": agent_view(await call.desk.snapshot(agent_id))}


async def _show(call: Call[AgentParams]) -> dict[str, AgentView]:
    return await _shown(call, call.params.agent)


async def _open(call: Call[Open]) -> dict[str, AgentView]:
    asked = call.params
    if asked.purpose == "interactive":
        agent = await call.desk.open(asked.agent)
    else:
        agent = await call.desk.keeper().open(await call.desk.name(asked.agent), purpose=asked.purpose)
    return await _shown(call, agent.id)


async def _create(call: Call[Create]) -> dict[str, AgentView]:
    asked = call.params
    options = AgentOptions(
        provider=asked.provider,
        model=asked.model,
        mode=asked.mode,
        thinking=asked.thinking,
        features=asked.features,
        max_output_tokens=asked.max_output_tokens,
    )
    spec = AgentSpec(
        id=asked.id,
        cwd=_path(asked.cwd),
        options=options,
        title=asked.title,
        labels=asked.labels,
        internal=asked.internal,
    )
    agent = await call.desk.create(spec, asked.environment)
    return await _shown(call, agent.id)


async def _close(call: Call[AgentParams]) -> dict[str, object]:
    await call.desk.close(call.params.agent)
    return {}


async def _importable(call: Call[Importable]) -> dict[str, object]:
    call.desk.serves_all()
    asked = call.params
    found = await call.desk.keeper().importable(
        provider=asked.provider, cwd=_path(asked.cwd), query=asked.query, limit=asked.limit
    )
    sessions = [
        {
            "provider": provider,
            "native_id": native.handle.native_id,
            "cwd": str(native.cwd),
            "title": native.title,
            "first_prompt": native.first_prompt,
            "updated_at": native.updated_at,
        }
        for provider, native in found.sessions
    ]
    return {"sessions": sessions, "errors": dict(found.errors)}


async def _import(call: Call[Import]) -> dict[str, AgentView]:
    call.desk.serves_all()
    asked = call.params
    agent = await call.desk.keeper().import_native(asked.provider, asked.native_id, cwd=_path(asked.cwd))
    return await _shown(call, agent.id)


def _cascade(
    verb: Callable[[AgentDirectory, str], Awaitable[Cascade]],
) -> Callable[[Call[AgentParams]], Awaitable[object]]:
    async def run(call: Call[AgentParams]) -> dict[str, object]:
        agent_id = await call.desk.name(call.params.agent)
        done = await verb(call.desk.keeper(), agent_id)
        return {"results": dict(done.results)}

    return run


def _changing(
    verb: Callable[[AgentDirectory, str], Awaitable[object]],
) -> Callable[[Call[AgentParams]], Awaitable[object]]:
    async def run(call: Call[AgentParams]) -> dict[str, AgentView]:
        agent_id = await call.desk.name(call.params.agent)
        await verb(call.desk.keeper(), agent_id)
        return await _shown(call, agent_id)

    return run


async def _reload(call: Call[Reload]) -> dict[str, AgentView]:
    agent_id = await call.desk.name(call.params.agent)
    if call.desk.directory is not None:
        await call.desk.directory.reload(agent_id, rehydrate=call.params.rehydrate)
    else:
        await call.desk.live(agent_id).reopen(rehydrate=call.params.rehydrate)
    return await _shown(call, agent_id)


async def _rewind(call: Call[Rewind]) -> dict[str, AgentView]:
    agent_id = await call.desk.name(call.params.agent)
    if call.desk.directory is not None:
        await call.desk.directory.rewind(agent_id, call.params.message)
    else:
        await call.desk.live(agent_id).revert(call.params.message)
    return await _shown(call, agent_id)


async def _update(call: Call[Update]) -> dict[str, AgentView]:
    asked = call.params
    agent_id = await call.desk.name(asked.agent)
    return {"agent": agent_view(await call.desk.keeper().update(agent_id, title=asked.title, labels=asked.labels))}


async def _configure(call: Call[Configure]) -> dict[str, object]:
    asked = call.params
    agent = await call.desk.open(asked.agent)
    notice = None
    if not isinstance(asked.mode, UnsetType):
        notice = await agent.set_mode(asked.mode)
    if not isinstance(asked.model, UnsetType):
        await agent.set_model(asked.model)
    if not isinstance(asked.thinking, UnsetType):
        await agent.set_thinking(asked.thinking)
    for feature, value in asked.features.items():
        await agent.set_feature(feature, value)
    return {"notice": notice}


async def _questions(call: Call[Questions]) -> dict[str, list[QuestionView]]:
    desk, wanted = call.desk, call.params.agent
    if wanted is not None:
        agent = desk.host.agents.get(await desk.name(wanted))
        agents = [agent] if agent is not None else []
    else:
        agents = list(desk.host.agents.list(internal=False))
    return {"questions": [QuestionView(agent.id, request) for agent in agents for request in agent.questions.values()]}


async def _respond(call: Call[Allow] | Call[Deny], response: PermissionResponse) -> dict[str, object]:
    agent_id = await call.desk.name(call.params.agent)
    if call.desk.directory is not None:
        await call.desk.directory.respond(agent_id, call.params.request, response, by=call.params.by)
    else:
        await call.desk.live(agent_id).respond(call.params.request, response, by=call.params.by)
    return {}


async def _allow(call: Call[Allow]) -> dict[str, object]:
    asked = call.params
    return await _respond(
        call,
        PermissionAllow(
            updated_input=asked.updated_input, updated_permissions=asked.updated_permissions, action=asked.action
        ),
    )


async def _deny(call: Call[Deny]) -> dict[str, object]:
    asked = call.params
    return await _respond(call, PermissionDeny(message=asked.message, interrupt=asked.interrupt, action=asked.action))


METHODS: Final = (
    Method("agents.list", ListAgents, "call", list_agents),
    Method("agents.show", AgentParams, "call", _show),
    Method("agents.create", Create, "call", _create),
    Method("agents.open", Open, "call", _open),
    Method("agents.close", AgentParams, "call", _close),
    Method("agents.archive", AgentParams, "call", _cascade(lambda keeper, one: keeper.archive(one))),
    Method("agents.unarchive", AgentParams, "call", _changing(lambda keeper, one: keeper.unarchive(one))),
    Method("agents.detach", AgentParams, "call", _changing(lambda keeper, one: keeper.detach(one))),
    Method("agents.delete", AgentParams, "call", _cascade(lambda keeper, one: keeper.delete(one))),
    Method("agents.importable", Importable, "call", _importable),
    Method("agents.import", Import, "call", _import),
    Method("agents.reload", Reload, "call", _reload),
    Method("agents.rewind", Rewind, "call", _rewind),
    Method("agents.read", AgentParams, "call", _changing(lambda keeper, one: keeper.mark_read(one))),
    Method("agents.unread", AgentParams, "call", _changing(lambda keeper, one: keeper.mark_unread(one))),
    Method("agents.update", Update, "call", _update),
    Method("agents.configure", Configure, "call", _configure),
    Method("permissions.list", Questions, "call", _questions),
    Method("permissions.allow", Allow, "call", _allow),
    Method("permissions.deny", Deny, "call", _deny),
)
