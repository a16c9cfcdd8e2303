"""What the translator remembers between frames."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from greenroom.providers import (
    Compaction,
    JsonObject,
    PartialObject,
    PermissionRequest,
    ProviderEvent,
    TodoItem,
    ToolFinished,
    ToolStarted,
    ToolStatus,
)

from ._subagents import SubAgents
from ._wire import Frame

KEPT = 64
"""Finished messages and calls that are remembered, so that late copies are recognised."""


@dataclass(slots=True)
class Turn:
    """The turn that the agent works on."""

    id: str
    ours: bool  # it answers a prompt that we wrote
    started: bool = False  # `turn_started` was emitted
    begun: bool = False  # the agent named it in a `system/init`, or echoed its prompt
    aborted: bool = False
    message: str | None = None  # id of the model answer that is being written: a new one is a new step
    metered: bool = False  # a request of it told how full the context is
    prompts: set[str] = field(default_factory=set)  # its prompt and the messages that joined it


@dataclass(slots=True)
class Block:
    """One block of a model answer."""

    kind: str
    id: str
    parts: list[str] = field(default_factory=list)
    whole: bool = False
    call: str | None = None
    input: PartialObject | None = None


@dataclass(slots=True)
class Message:
    """A model answer: its blocks by their index on the wire."""

    id: str
    blocks: dict[int, Block] = field(default_factory=dict)

    def block_id(self, index: int) -> str:
        """The first block carries the message's own id, so that most messages have one id everywhere."""
        return f"{self.id}.{index}" if index else self.id


@dataclass(slots=True)
class Call:
    """A tool call of the main conversation that has no result yet."""

    name: str
    input: JsonObject


@dataclass(slots=True)
class State:
    """Everything of one conversation. The functions of the neighbouring modules read and change it."""

    native_id: str | None = None
    mode: str | None = None
    mode_before_plan: str | None = None
    model: str | None = None

    turn: Turn | None = None
    outer: Turn | None = None  # ours, waiting until the agent is done with a turn of its own
    announced: bool = False  # a `system/init` without a prompt: the next output is a turn of the agent's own
    names_prompts: bool = False  # this version says which prompt a turn answers
    autonomous: int = 0
    sent: dict[str, bool] = field(default_factory=dict)  # prompts without an echo; True: written to join a turn
    past_prompts: dict[str, None] = field(default_factory=dict)  # their turns are over
    interrupting: bool = False
    last_result: str | None = None
    api_error: tuple[str, str] | None = None  # text and code of a failed request

    message: Message | None = None
    messages: dict[str, Message] = field(default_factory=dict)
    calls: dict[str, Call] = field(default_factory=dict)
    past_calls: dict[str, Call] = field(default_factory=dict)
    minted: int = 0

    questions: dict[str, tuple[PermissionRequest, Frame]] = field(default_factory=dict)
    agents: SubAgents = field(default_factory=SubAgents)
    background: list[JsonObject] = field(default_factory=list)
    held: list[ToolStarted | ToolFinished] = field(
        default_factory=list
    )  # notifications that wait for the turn they cause
    todos: dict[str, TodoItem] = field(default_factory=dict)

    compacting: bool = False
    boundary: Compaction | None = None  # it waits for its summary, which follows
    context_max: int | None = None
    context_used: int | None = None
    context_forced: bool = False  # the agent stated the number itself
    request_input: int = 0

    @property
    def turn_id(self) -> str | None:
        """The id of the open turn, where it is known."""
        return self.turn.id if self.turn else None

    def remember(self, message: Message) -> Message:
        """Keep `message` for late copies, and forget the oldest."""
        self.messages[message.id] = message
        while len(self.messages) > KEPT:
            del self.messages[next(iter(self.messages))]
        return message

    def mint(self, kind: str) -> str:
        """An id for something that came without one."""
        self.minted += 1
        return f"{kind}-{self.minted}"

    def forget_prompts(self, prompts: set[str]) -> None:
        """The turn of these prompts is over: whatever names one of them again starts nothing."""
        self.past_prompts.update(dict.fromkeys(prompts))
        for prompt in prompts:
            self.sent.pop(prompt, None)
        while len(self.past_prompts) > KEPT:
            del self.past_prompts[next(iter(self.past_prompts))]

    def finish_call(self, call_id: str) -> Call | None:
        """Take the call out of the open ones; a call that had a result already is found as well."""
        call = self.calls.pop(call_id, None)
        if call is None:
            return self.past_calls.get(call_id)
        self.past_calls[call_id] = call
        while len(self.past_calls) > KEPT:
            del self.past_calls[next(iter(self.past_calls))]
        return call

    def close_calls(self, status: ToolStatus) -> Iterable[ProviderEvent]:
        """The calls that their turn leaves without a result. A later result still settles them."""
        for call_id in list(self.calls):
            call = self.finish_call(call_id)
            if call:
                yield ToolFinished(
                    call_id=call_id, name=call.name, input=call.input, status=status, turn_id=self.turn_id
                )
