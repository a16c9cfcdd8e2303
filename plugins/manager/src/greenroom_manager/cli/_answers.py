"""The questions of agents that other hosts drive, and answers to them: an agent that nobody drives asks nothing."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Literal

import click
import msgspec

from greenroom import Host
from greenroom.agents import AgentSnapshot, Closed, HostClient, RemoteHost
from greenroom.cli import CliState, emit_json, fail, table
from greenroom.errors import GreenroomError
from greenroom.providers import PermissionRequest
from greenroom.sessions.vocabulary import JsonObject
from greenroom_manager._attention_text import question_line

from ._place import Place, opened, place_of


class Question(msgspec.Struct, frozen=True):
    """A question that waits, and whose it is; as the method `permissions.list` tells it."""

    agent: str
    request: PermissionRequest


class _Questions(msgspec.Struct, frozen=True):
    questions: list[Question] = []  # msgspec copies an empty default


@dataclass(frozen=True, slots=True)
class Answer:
    """What was typed; None and False are left out."""

    verb: Literal["allow", "deny"]
    action: str | None = None
    updated_input: JsonObject | None = None
    message: str | None = None
    interrupt: bool = False

    def params(self) -> dict[str, object]:
        """The parameters of the method."""
        given = {
            "action": self.action,
            "updated_input": self.updated_input,
            "message": self.message,
            "interrupt": self.interrupt or None,
        }
        return {name: value for name, value in given.items() if value is not None}


def input_of(given: str | None, answers: Sequence[str]) -> JsonObject | None:
    """The input that was typed, with the answers in it.

    Raises:
        GreenroomError: it is no JSON object, or an answer has no name.
    """
    updated: object = None
    if given is not None:
        try:
            updated = json.loads(given)
        except ValueError as error:
            fail(f"the input is no JSON: {error}")
        if not isinstance(updated, dict):
            fail("the input is no JSON object", hint='--input \'{"command": "ls"}\'')
    if not answers:
        return updated if isinstance(updated, dict) else None
    named: dict[str, str] = {}
    for text in answers:
        name, separator, value = text.partition("=")
        if not separator or not name.strip():
            fail(f"{text!r} does not say what it answers", hint="--answer NAME=TEXT")
        named[name.strip()] = value
    return {**(updated if isinstance(updated, dict) else {}), "answers": named}


async def list_questions(state: CliState, named: str | None, as_json: bool) -> int:  # noqa: FBT001 - a flag
    """List the questions of one agent, or of all that are driven somewhere."""
    if named is not None:
        async with place_of(state, named) as place:
            found = await _asked(place)
    else:
        async with opened(state) as (host, directory):
            found = await _everywhere(host, await directory.list())
    if as_json:
        emit_json([msgspec.to_builtins(question) for question in found])
    elif not found:
        click.echo("no agent waits for an answer")
    else:
        head = ("agent", "question", "tool", "asks", "actions")
        table(
            head,
            [(q.agent, q.request.id, q.request.name, *_told(q.request)) for q in found],
        )
    return 0


async def give(state: CliState, named: str, wanted: str | None, answer: Answer, as_json: bool) -> int:  # noqa: FBT001 - a flag
    """Give an answer to a question of an agent."""
    async with place_of(state, named) as place:
        if place.remote is None:
            fail(
                f"agent {place.agent_id} is driven by nobody, so it asks nothing",
                hint=f"greenroom run --session {place.agent_id}   goes on with it",
            )
        request_id = wanted if wanted is not None else _only(place, await _asked(place))
        method = f"permissions.{answer.verb}"
        await place.remote.call(method, agent=place.agent_id, request=request_id, **answer.params())
    done = "allowed" if answer.verb == "allow" else "denied"
    if as_json:
        emit_json({"agent": place.agent_id, "request": request_id, "answer": done})
    else:
        click.echo(f"question {request_id} of agent {place.agent_id} {done}")
    return 0


def _only(place: Place, found: Sequence[Question]) -> str:
    if not found:
        fail(f"agent {place.agent_id} waits for no answer")
    if len(found) > 1:
        ids = ", ".join(question.request.id for question in found)
        fail(f"agent {place.agent_id} waits for {len(found)} answers: say which one is meant", hint=ids)
    return found[0].request.id


async def _asked(place: Place) -> list[Question]:
    return await _questions_of(place.remote, place.agent_id) if place.remote is not None else []


async def _questions_of(remote: RemoteHost, agent_id: str) -> list[Question]:
    answer = await remote.call("permissions.list", agent=agent_id)
    return msgspec.convert(answer, _Questions).questions


async def _everywhere(host: Host, snapshots: Sequence[AgentSnapshot]) -> list[Question]:
    """The questions of all agents that are driven somewhere; one whose host does not answer is told and left out."""
    found: list[Question] = []
    for snapshot in snapshots:
        if isinstance(snapshot.state, Closed):
            continue
        agent_id = snapshot.record.id
        try:
            async with _owner(host, agent_id) as remote:
                found += await _questions_of(remote, agent_id) if remote is not None else []
        except GreenroomError as error:
            click.echo(f"agent {agent_id} cannot be asked: {error.args[0]}", err=True)
    return found


@asynccontextmanager
async def _owner(host: Host, agent_id: str) -> AsyncIterator[RemoteHost | None]:
    """The host that drives the agent.

    Raises:
        GreenroomError: this host cannot talk to others.
    """
    client = host.service(HostClient)
    if client is None:
        fail("no plugin talks to other hosts", hint="pip install greenroom-control")
    async with client.owner(agent_id) as remote:
        yield remote


def _told(request: PermissionRequest) -> tuple[str, str | None]:
    """What is asked, and the names of its actions."""
    return question_line(request), ", ".join(action.id for action in request.actions) or None
