"""What a session's log says about its agent's record: from a live session, event by event, or from the store."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace as with_fields
from typing import Any, Final

import msgspec

from greenroom.agents import SETUP_LABEL, Agent, AgentOptions, AgentRecord, AgentSettings
from greenroom.providers import Handle, RuntimeInfo, finite_usage
from greenroom.sessions import Event, SessionEntry, SessionStore
from greenroom.sessions.vocabulary import AgentConfig

changed = msgspec.structs.replace


def apply(record: AgentRecord, event: Event, *, asked: bool) -> AgentRecord:
    """The record after an event of the log; an event that says nothing about it leaves it equal.

    Args:
        asked: the configuration was chosen or has drifted, so it is asked for again at the next start; False while the
            provider only tells for the first time what it uses.
    """
    teller = _TELLERS.get(event.type)
    return teller(record, event, asked) if teller is not None else record


def _config(record: AgentRecord, event: Event, asked: bool) -> AgentRecord:  # noqa: FBT001 - tellers share a signature
    data: AgentConfig = event.data
    record = _named(record, data)
    told = {name: value for name in ("model", "mode", "thinking") if (value := getattr(data, name)) is not None}
    features = dict(data.features or {})
    if not told and not features:
        return record
    runtime = record.runtime or RuntimeInfo()
    record = changed(record, runtime=with_fields(runtime, **told, features=_merged(runtime.features, features)))
    if asked:
        merged = _merged(record.settings.features, features)
        record = changed(record, settings=changed(record.settings, **told, features=merged))
    return record


def _named(record: AgentRecord, data: AgentConfig) -> AgentRecord:
    """Title and labels; one that is None goes, and that of a `setup` is `had_setup` in a record."""
    if data.title is not None:
        record = changed(record, title=data.title or None)
    if data.labels:
        labels = {**record.labels, **data.labels}
        had_setup = record.had_setup or labels.pop(SETUP_LABEL, None) is not None
        kept = {name: value for name, value in labels.items() if value is not None and name != SETUP_LABEL}
        record = changed(record, labels=kept, had_setup=had_setup)
    return record


def _merged(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in {**old, **new}.items() if value is not None}


def _context(record: AgentRecord, event: Event, _asked: bool) -> AgentRecord:  # noqa: FBT001 - see `_config`
    runtime = record.runtime or RuntimeInfo()
    told = with_fields(runtime, model=event.data.model, context_window=event.data.context_window)
    return changed(record, provider=event.data.provider, runtime=told)


def _native(record: AgentRecord, event: Event, _asked: bool) -> AgentRecord:  # noqa: FBT001 - see `_config`
    return changed(record, native=Handle(native_id=event.data.native_id))


def _usage(record: AgentRecord, event: Event, _asked: bool) -> AgentRecord:  # noqa: FBT001 - see `_config`
    return changed(record, usage=finite_usage(event.data.usage) or record.usage)


def _turn_end(record: AgentRecord, event: Event, _asked: bool) -> AgentRecord:  # noqa: FBT001 - see `_config`
    kind, completed_at = event.data.reason.kind, record.completed_at
    if kind in ("completed", "max_tokens"):
        completed_at = event.time
    elif kind == "error":
        completed_at = None
    return changed(record, usage=finite_usage(event.data.usage) or record.usage, completed_at=completed_at)


_TELLERS: Final[Mapping[str, Callable[[AgentRecord, Event, bool], AgentRecord]]] = {
    "agent/config": _config,
    "request/context": _context,
    "provider/session": _native,
    "usage/updated": _usage,
    "turn/end": _turn_end,
}

TYPES: Final = tuple(_TELLERS)
"""The event types that say something about a record."""


def chosen(settings: AgentSettings, options: AgentOptions) -> AgentSettings:
    """The settings after an agent was started with these options: what they leave open stays."""
    told = {
        name: value
        for name in ("model", "mode", "thinking", "max_output_tokens")
        if (value := getattr(options, name)) is not None
    }
    return changed(settings, **told, features=_merged(settings.features, options.features))


def first_record(agent: Agent, provider: str) -> AgentRecord:
    """The record of a live agent that had none: its log says what is known."""
    session, state = agent.session, agent.session.state
    config, context, last = state.config, state.context, state.last_reason
    record = AgentRecord(
        id=agent.id,
        provider=provider,
        cwd=session.header.cwd,
        created_at=session.header.created_at,
        updated_at=0,
        internal=agent.internal,
        native=Handle(native_id=state.native_id) if state.native_id is not None else None,
        usage=finite_usage(last.usage) if last is not None else None,
    )
    record = _named(record, config)
    if context is not None or config.model or config.mode or config.thinking:
        told = RuntimeInfo(
            model=context.model if context is not None else config.model,
            mode=config.mode,
            thinking=config.thinking,
            context_window=context.context_window if context is not None else None,
            features=dict(config.features or {}),
        )
        record = changed(record, runtime=told)
    return record


async def stored_record(store: SessionStore, entry: SessionEntry) -> AgentRecord | None:
    """The record of a stored session that has none; None if its header cannot be read.

    Raises:
        SessionError: its log is damaged.
    """
    header = entry.header
    if header is None:
        return None
    record = AgentRecord(
        id=entry.id,
        provider=header.provider or "",
        cwd=header.cwd,
        created_at=header.created_at,
        updated_at=entry.updated_at,
    )
    start = header.seed_length or 0  # a fork's conversation, title and settings are its own
    for event in await store.read_from(entry.id, start, types=TYPES, limit=None):
        record = apply(record, event, asked=False)
    return changed(record, updated_at=entry.updated_at)
