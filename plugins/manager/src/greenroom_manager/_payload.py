"""An agent as plain JSON, for `--json` and for tables: names, ISO times, nothing that is shared with the agent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Final, Literal, cast

import msgspec

from greenroom.agents import AgentRecord, AgentSettings, AgentSnapshot, AgentState, Failed, Initializing, Running
from greenroom.errors import GreenroomError
from greenroom.providers import PermissionRequest, finite_usage
from greenroom.sessions.vocabulary import JsonObject

from ._snapshot import UNKNOWN_ERROR, error_of, name_of, stored_state

SHORT_ID: Final = 7
"""Characters of an id in a listing; as version control shows its ids."""


def payload(snapshot: AgentSnapshot, *, capabilities: Iterable[str] = ()) -> JsonObject:
    """Everything that is shown of an agent; what is not known is null. Variables of its environment are left out.

    Args:
        capabilities: of its provider, while it is live.
    """
    record, runtime = snapshot.record, snapshot.record.runtime
    settings, usage, unread = record.settings, finite_usage(record.usage), record.unread
    return {
        **list_item(snapshot),
        "created_at": iso(record.created_at),
        "archived_at": iso(record.archived_at),
        "completed_at": iso(record.completed_at),
        "internal": record.internal,
        "labels": dict(record.labels),
        "mode": (runtime.mode if runtime is not None else None) or settings.mode,
        "thinking": (runtime.thinking if runtime is not None else None) or settings.thinking,
        "settings": _plain(settings) if settings != AgentSettings() else None,
        "runtime": _plain(runtime),
        "native": _plain(record.native),
        "usage": _plain(usage),
        "unread": {"reason": unread.reason, "since": iso(unread.since)} if unread is not None else None,
        "had_setup": record.had_setup,
        "capabilities": sorted(capabilities) if snapshot.live else [],
        "questions": [_question(request) for request in snapshot.questions],
    }


def list_item(snapshot: AgentSnapshot) -> JsonObject:
    """What a listing shows of an agent; the model that it runs on, else the one that was asked for."""
    record, state = snapshot.record, snapshot.state
    runtime = record.runtime
    return {
        "id": record.id,
        "short_id": record.id[:SHORT_ID],
        "title": record.title,
        "state": name_of(state),
        "turn": state.turn if isinstance(state, Running) else None,
        "last_error": error_of(state) or record.last_error,
        "provider": record.provider,
        "model": (runtime.model if runtime is not None else None) or record.settings.model,
        "cwd": record.cwd,
        "live": snapshot.live,
        "available": snapshot.available,
        "archived": record.archived_at is not None,
        "attention": _attention(snapshot),
        "updated_at": iso(record.updated_at),
    }


def _attention(snapshot: AgentSnapshot) -> str | None:
    if snapshot.record.unread is not None:
        return snapshot.record.unread.reason
    return "permission" if snapshot.questions else None


def from_wire(view: JsonObject) -> AgentSnapshot:
    """What another host shows of an agent, as its endpoint sends it.

    Raises:
        GreenroomError: it is not understood.
    """
    try:
        record = msgspec.convert(view["record"], AgentRecord)
        state = cast("Mapping[str, object]", view["state"])
        questions = msgspec.convert(view.get("questions", []), tuple[PermissionRequest, ...])
        return AgentSnapshot(
            record=record,
            state=_state(record, state),
            questions=questions,
            live=bool(view.get("live")),
            available=bool(view.get("available", True)),
        )
    except (KeyError, TypeError, msgspec.ValidationError) as error:
        raise GreenroomError(f"what the other host shows of an agent is not understood: {error}") from error


def _state(record: AgentRecord, view: Mapping[str, object]) -> AgentState:
    name = msgspec.convert(view["name"], Literal["initializing", "running", "error", "idle", "closed"])
    turn, error = msgspec.convert(view.get("turn"), int | None), msgspec.convert(view.get("last_error"), str | None)
    if name == "running":
        return Running(turn, error)
    if name == "error":
        return Failed(error or UNKNOWN_ERROR)
    if name == "initializing":
        return Initializing()
    return stored_state(msgspec.structs.replace(record, state=name, last_error=error), elsewhere=True)


def iso(time: int | None) -> str | None:
    """A time in ms since the epoch as ISO 8601 in UTC."""
    if time is None:
        return None
    return datetime.fromtimestamp(time / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _question(request: PermissionRequest) -> JsonObject:
    """A question without the details of its tool call, which may be large; the log has them."""
    shown = {name: getattr(request, name) for name in ("id", "name", "kind", "title", "description", "input")}
    actions = [{"id": action.id, "label": action.label, "behavior": action.behavior} for action in request.actions]
    return cast("JsonObject", msgspec.to_builtins({**shown, "actions": actions}))


def _plain(value: object) -> JsonObject | None:
    """A copy as JSON has it, without fields that say nothing; None for nothing."""
    if value is None:
        return None
    plain = cast("JsonObject", msgspec.to_builtins(value))
    return {name: field for name, field in plain.items() if field is not None and field != {}}
