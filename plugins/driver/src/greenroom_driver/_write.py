"""Provider events as session events: the one place where a turn's events are appended.

A table from event to method, like a translator. The writer keeps the brackets: the open turn, its steps, the open
messages and calls of the open step. It decides nothing about runs; it is told.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from greenroom import providers as p
from greenroom.agents import AgentOptions
from greenroom.sessions import Replace, Surface
from greenroom.sessions import vocabulary as v

from ._calls import Calls, Normalize
from ._dated import Log
from ._long import SHORT, bounded, cut_items, text_of
from ._texts import Delta, Texts

_TEXTS: Final = frozenset({p.TextDelta, p.ReasoningDelta})

RAW_KEPT: Final = 20
"""Unknown messages of one kind that a turn keeps; of the rest the number (section 3 of the vocabulary)."""

Stray = Callable[[str], None]
"""Takes note of an event that has no place in the log."""


class Writer:
    """The log of one agent, from the driver's side.

    Args:
        provider: the id of the provider, for messages that nobody knows.
        normalize: makes a detail of a tool's name, input and output.
        stray: takes note of what could not be logged.
    """

    def __init__(self, session: Log, *, provider: str, normalize: Normalize, stray: Stray) -> None:
        self._session = session
        self._provider = provider
        self._stray = stray
        self._texts = Texts(session)
        self._calls = Calls(session, normalize)
        self._step_owner: str | None = None
        self._raws: dict[str, int] = {}
        self._compacting: p.Compaction | None = None
        self._children: dict[str, bool] = {}
        self._acknowledged: set[str] = set()
        self._methods: Mapping[type, Callable[[Any, str | None], None]] = {
            p.ToolStarted: self._call,
            p.ToolProgress: self._call,
            p.ToolFinished: self._call,
            p.MessageDone: self._message_done,
            p.StepBoundary: self._step_boundary,
            p.Todo: self._todo,
            p.UsageUpdated: self._usage,
            p.SessionStarted: self._session_started,
            p.ConfigChanged: self._config,
            p.UserEcho: self._echo,
            p.SubAgent: self._subagent,
            p.Compaction: self._compaction,
            p.Notice: self._notice,
            p.Raw: self._raw,
            p.PermissionResolved: self._resolved,
        }
        self.prompts: dict[str, str] = {}
        """The texts of our messages of the open turn by id, until the provider has repeated them."""
        self.given: dict[str, tuple[p.PermissionResponse, str]] = {}
        """Answers that the provider has, and who gave them, until they are logged."""
        self.usage: v.Usage | None = None
        self.modes: tuple[p.Mode, ...] = ()

    @property
    def turn(self) -> int | None:
        """The number of the open turn, or None."""
        return self._session.state.open_turn

    @property
    def step(self) -> int | None:
        """The number of the open step, or None."""
        return self._session.state.open_step

    @property
    def busy_with_tools(self) -> bool:
        """Whether a call of the open step runs."""
        return self._calls.any_open

    # brackets

    def open_turn(self, trigger: str, source: v.Source | None = None) -> int:
        """Open the next turn; return its number."""
        turn = self._session.state.next_turn()
        self._session.append("turn/start", v.TurnStart(turn, v.Trigger(trigger, source)))
        self._raws.clear()
        return turn

    def start_step(self, owner: str | None = None) -> None:
        """Open the next step of the open turn, for a foreign turn of the provider if one is named."""
        state = self._session.state
        turn, step = self._turn(), state.last_step + 1
        self._session.append("step/start", v.StepStart(turn, step, owner))
        self._step_owner = owner
        self._texts.enter(turn, step)
        self._calls.enter(turn, step)

    def end_step(self, *, interrupted: bool = False) -> None:
        """Close the open step, if there is one: its messages, its calls, itself."""
        step = self.step
        if step is None:
            return
        self._texts.close(interrupted=interrupted)
        self._calls.close()
        self._session.append("step/end", v.StepEnd(self._turn(), step, self._step_owner))
        self._step_owner = None

    def end_foreign_step(self) -> None:
        """A foreign turn inside ours is over: close its step, if one is open."""
        if self._step_owner is not None:
            self.end_step()

    def end_turn(self, reason: v.Reason, usage: p.Usage | None = None) -> None:
        """Close the open turn, and whatever is open in it."""
        turn = self._turn()
        self.end_step(interrupted=reason.kind == "aborted")
        if self._compacting is not None:
            self._end_compaction(p.Compaction(phase="end", error="the turn ended"))
        self._count_raws()
        self._answer_open(turn, reason)
        self.usage = p.finite_usage(usage) or self.usage
        self._session.append("turn/end", v.TurnEnd(turn, reason, self.usage))
        self.prompts.clear()

    def message(self, kind: Literal["user", "context", "steering"], message: v.Message) -> None:
        """Log input that enters the turn."""
        payload = {"user": v.UserMessage, "context": v.ContextMessage, "steering": v.SteeringMessage}[kind](message)
        self._session.append(f"{kind}/message", payload, surface="append")
        if kind != "context":
            self.prompts[message.id] = text_of_message(message)

    def accepted(self, provider_turn: str) -> None:
        """Log that the provider has our turn."""
        self._session.append("turn/accepted", v.TurnAccepted(self._turn(), provider_turn))

    def knows(self, echo: p.UserEcho) -> bool:
        """Whether the provider repeats a message of ours, by its id or, where it has none, by the words."""
        mine = echo.repeats
        if mine is not None:
            return mine in self.prompts or mine in self._acknowledged
        return echo.provider_message_id.strip() in self._acknowledged or echo.text in self.prompts.values()

    def event(self, event: p.ProviderEvent, owner: str | None = None, following: object = None) -> None:
        """Log an event where it belongs.

        Args:
            owner: the foreign turn of the provider that it belongs to.
            following: what is logged next, so that a piece of text can be the final one.
        """
        if type(event) in _TEXTS:
            if self._in_step(event, owner):
                text: Delta = event  # type: ignore[assignment]  # one of the set
                self._texts.write(text, final=self._texts.ends_with(text, following))
            return
        method = self._methods.get(type(event))
        if method is not None:  # the others say something about runs only
            method(event, owner)

    def settle_call(self, event: p.ProviderEvent) -> bool:
        """Log the late result of a call that was closed as unknown; whether it was one."""
        return isinstance(event, (p.ToolProgress, p.ToolFinished)) and self._calls.settle(event)

    def recall(self, call: str, detail: p.ToolDetail) -> None:
        """A call that was closed as unknown before this writer was made: its late result settles it."""
        self._calls.recall(call, detail)

    def forget_call(self, call: str) -> None:
        """Its late result was logged by somebody else."""
        self._calls.forget(call)

    # questions

    def asked(self, request: p.PermissionRequest) -> None:
        """Log a question; inside an open turn it names it."""
        self._session.append("permission/asked", v.PermissionAsked(request, self.turn))

    def answered(self, request_id: str, response: p.PermissionResponse, by: str) -> None:
        """Log an answer, if the question is still open. What was given to the provider stands, whoever closes it."""
        if request_id in self._session.state.asked:
            response, by = self.given.get(request_id, (response, by))
            self._session.append("permission/answered", v.PermissionAnswered(request_id, response, by))

    def withdraw_questions(self, why: str) -> None:
        """Answer every open question for the provider: it is gone."""
        for request_id in list(self._session.state.asked):
            self.answered(request_id, p.PermissionDeny(message=why), "system")

    def cancel_children(self) -> None:
        """Close the provider's sub-agents that still run: their parent goes."""
        for child, running in list(self._children.items()):
            if running:
                self._session.append("subagent/upserted", v.SubagentUpserted(child, status="canceled"))
        self._children.clear()

    # the rest of the table

    def _answer_open(self, turn: int, reason: v.Reason) -> None:
        why = {"aborted": "interrupted", "error": "turn failed"}.get(reason.kind)
        if why is None:
            return
        for request_id, asked in list(self._session.state.asked.items()):
            if asked.turn == turn:
                self.answered(request_id, p.PermissionDeny(message=why), "system")

    def _in_step(self, event: p.ProviderEvent, owner: str | None) -> bool:
        """Make sure that a step of the right owner is open. False: there is no turn to open one in."""
        if self._session.state.open_step is not None and self._step_owner == owner:
            return True
        if not self._in_turn(event):
            return False
        self.end_step()
        self.start_step(owner)
        return True

    def _in_turn(self, event: p.ProviderEvent) -> bool:
        if self.turn is None:
            self._stray(f"{type(event).__name__} outside a turn")
            return False
        return True

    def _turn(self) -> int:
        turn = self.turn
        assert turn is not None, "the driver opens a turn before it writes into one"  # noqa: S101 - ours
        return turn

    def _call(self, event: p.ToolStarted | p.ToolProgress | p.ToolFinished, owner: str | None) -> None:
        if self._session.state.open_turn is None:
            if not self._calls.settle(event):
                self._stray(f"{type(event).__name__} of call {event.call_id!r} outside a turn")
        elif self._in_step(event, owner):
            self._texts.interrupt()
            self._calls.write(event)

    def _message_done(self, event: p.MessageDone, owner: str | None) -> None:
        if self._in_step(event, owner):
            self._texts.done(event)

    def _step_boundary(self, event: p.StepBoundary, owner: str | None) -> None:
        if self._in_turn(event):
            self.end_step()
            self.start_step(owner)

    def _todo(self, event: p.Todo, _owner: str | None) -> None:
        if self._in_turn(event):
            self._session.append("todo/write", v.TodoWrite(cut_items(event.items)))

    def _usage(self, event: p.UsageUpdated, _owner: str | None) -> None:
        usage = p.finite_usage(event.usage)
        if usage is not None and usage != self.usage:
            self.usage = usage
            self._session.append("usage/updated", v.UsageUpdated(usage))

    def _session_started(self, event: p.SessionStarted, _owner: str | None) -> None:
        if event.native_id != self._session.state.native_id:
            self._session.append("provider/session", v.ProviderSessionId(event.native_id))

    def _config(self, event: p.ConfigChanged, _owner: str | None) -> None:
        self.modes = event.modes if event.modes is not None else self.modes
        self.config(mode=event.mode, model=event.model, thinking=event.thinking)

    def choose(self, options: AgentOptions) -> None:
        """Log what was chosen for the agent, as far as it is new."""
        features = dict(options.features) or None
        self.config(model=options.model, mode=options.mode, thinking=options.thinking, features=features)

    def config(self, **wanted: Any) -> None:  # noqa: ANN401 - the fields of AgentConfig, checked by append
        """Log what of the configuration changed, if anything did."""
        known = self._session.state.config
        changed = {name: value for name, value in wanted.items() if value not in (None, getattr(known, name))}
        if changed:
            self._session.append("agent/config", v.AgentConfig(**changed))

    def _echo(self, event: p.UserEcho, _owner: str | None) -> None:
        if self.knows(event):
            self._acknowledge(event)
            return
        if not self._in_turn(event):
            return
        given = event.provider_message_id.strip()
        text = text_of(event.text, self._session.put_blob) or ""
        message = v.Message(given or f"typed-{len(self._session)}", (v.Text(text),), v.UserSource())
        self._session.append("user/message", v.UserMessage(message), surface="append")
        if given:
            self._acknowledged.add(given)
            self._session.append("user/acknowledged", v.UserAcknowledged(given, given))

    def _acknowledge(self, event: p.UserEcho) -> None:
        mine = event.repeats
        if mine is None:
            mine = next((id_ for id_, text in self.prompts.items() if text == event.text), None)
        if mine is None:
            return  # it was typed elsewhere, and is told again
        self.prompts.pop(mine, None)
        given = event.provider_message_id.strip()
        if mine not in self._acknowledged and given:
            self._acknowledged.add(mine)
            self._session.append("user/acknowledged", v.UserAcknowledged(mine, given))

    def _subagent(self, event: p.SubAgent, _owner: str | None) -> None:
        child = event.child_id
        if event.action == "remove":
            self._children.pop(child, None)
            self._session.append("subagent/removed", v.SubagentRemoved(child))
        elif event.action == "item" and event.item is not None:
            item = msgspec.json.decode(p.encode_event(event.item))
            self._session.append("subagent/item", v.SubagentItem(child, bounded(item, self._session.put_blob)))
        elif event.action == "upsert":
            if event.status is not None or child not in self._children:
                self._children[child] = event.status in (None, "running")
            upsert = v.SubagentUpserted(child, event.call_id, event.title, event.agent_type, event.status)
            self._session.append("subagent/upserted", upsert)

    def _compaction(self, event: p.Compaction, _owner: str | None) -> None:
        if not self._in_turn(event):
            return
        if event.phase == "start" and self._compacting is None:
            self._compacting = event
            started = v.CompactionStart(event.trigger or "auto", event.tokens_before)
            self._session.append("compaction/start", started)
        elif event.phase == "end" and self._compacting is not None:
            self._end_compaction(event)

    def _end_compaction(self, event: p.Compaction) -> None:
        begun, self._compacting = self._compacting, None
        trigger = event.trigger or (begun.trigger if begun is not None else None) or "auto"
        if event.summary is not None and event.error is None:
            self._summarise(event.summary)
        ended = v.CompactionEnd(trigger, event.tokens_before, event.tokens_after, event.error)
        self._session.append("compaction/end", ended)

    def _summarise(self, summary: str) -> None:
        """The summary takes the place of everything that the model saw before."""
        nodes: Sequence[int] = self._session.surface
        surface: Surface = Replace((nodes[0], nodes[-1])) if nodes else "append"
        text = text_of(summary, self._session.put_blob) or ""
        message = v.Message(f"summary-{len(self._session)}", (v.Text(text),), v.SystemSource())
        self._session.append("context/message", v.ContextMessage(message), surface=surface)

    def _notice(self, event: p.Notice, _owner: str | None) -> None:
        self.notice(event.level, event.message, event.code)

    def notice(self, level: Literal["info", "warning", "error"], message: str, code: str | None = None) -> None:
        """Log a line for people."""
        self._session.append("notice", v.Notice(level, message[: SHORT // 4], code))

    def _raw(self, event: p.Raw, _owner: str | None) -> None:
        seen = self._raws[event.kind] = self._raws.get(event.kind, 0) + 1
        if seen > RAW_KEPT:
            return
        payload = event.payload
        encoded = msgspec.json.encode(payload)
        if len(encoded) > SHORT:
            payload = {"cut": encoded[:SHORT].decode("utf-8", "ignore"), "bytes": len(encoded)}
        self._session.append("raw", v.RawMessage(self._provider, event.kind, payload))

    def _count_raws(self) -> None:
        for kind, seen in self._raws.items():
            if seen > RAW_KEPT:
                payload = {"more": seen - RAW_KEPT}
                self._session.append("raw", v.RawMessage(self._provider, kind, payload))
        self._raws.clear()

    def _resolved(self, event: p.PermissionResolved, _owner: str | None) -> None:
        self.answered(event.request_id, event.response, event.by)


def text_of_message(message: v.Message) -> str:
    """The words of a message."""
    return "\n".join(
        block.text for block in message.content if isinstance(block, v.Text) and isinstance(block.text, str)
    )
