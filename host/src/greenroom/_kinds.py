"""The kinds of hooks: how a hook is called and what a failure means, as data.

The table is the contract of `docs/hooks.md`. The spec decides the failure
policy, never the implementation: a policy hook must fail closed whatever its
author believes, an audit hook must never stop the work it watches.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

TIMEOUT_CAP: Final = 120.0
"""Seconds an implementation may ask for unless the operator says otherwise: two minutes, as a person waits for it."""


class Kind(StrEnum):
    """How the host calls a hook; see `KINDS` for what follows from it."""

    REGISTER = "register"
    SETUP = "setup"
    ANNOUNCE = "announce"
    COLLECT = "collect"
    OBSERVE = "observe"
    SLOT = "slot"
    FIRST = "first"
    DECIDE = "decide"
    REWRITE = "rewrite"
    GATE = "gate"
    WRAP = "wrap"


class Colour(StrEnum):
    """Which functions may implement a hook."""

    DEF_ONLY = "def only"
    EITHER = "def or async def"
    ASYNC_ONLY = "async def only"


class OnFailure(StrEnum):
    """What a raise or a time-out of one implementation means."""

    LOAD_FAILS = "the plugin fails to load"
    SETUP_FAILS = "what is being set up fails"
    VETO = "veto, after all have run"
    MISSING = "that owner's part is missing, recorded"
    RECORDED = "recorded, nothing else"
    SKIPPED = "that one is skipped, recorded"
    DENY = "counts as deny"
    CLOSED = "the call fails closed"
    OPERATION_FAILS = "the operation fails"
    ERROR_RESULT = "an error result"


@dataclass(frozen=True, slots=True)
class KindRules:
    """What the host does with every hook of a kind.

    Attributes:
        called: one sentence for the reference.
        colour: which functions may implement it, unless the spec narrows it.
        timeout: seconds for one implementation, None where nothing bounds it.
        on_failure: what a raise or a time-out means.
    """

    called: str
    colour: Colour
    timeout: float | None
    on_failure: OnFailure


KINDS: Final[dict[Kind, KindRules]] = {
    Kind.REGISTER: KindRules("at load, results collected", Colour.DEF_ONLY, None, OnFailure.LOAD_FAILS),
    Kind.SETUP: KindRules("awaited in order", Colour.EITHER, 30.0, OnFailure.SETUP_FAILS),
    Kind.ANNOUNCE: KindRules("at the publication point, all run", Colour.DEF_ONLY, None, OnFailure.VETO),
    Kind.COLLECT: KindRules("results with their owners, in order", Colour.EITHER, 5.0, OnFailure.MISSING),
    Kind.OBSERVE: KindRules("all run; async ones behind a bounded queue", Colour.EITHER, 5.0, OnFailure.RECORDED),
    Kind.SLOT: KindRules("at load, at most one in the host", Colour.DEF_ONLY, None, OnFailure.LOAD_FAILS),
    Kind.FIRST: KindRules("in order until one answers", Colour.EITHER, 10.0, OnFailure.SKIPPED),
    Kind.DECIDE: KindRules(
        "all run concurrently; the strictest opinion wins (deny > ask > allow), ties by order",
        Colour.EITHER,
        10.0,
        OnFailure.DENY,
    ),
    Kind.REWRITE: KindRules("ordered chain; None is no opinion", Colour.EITHER, 10.0, OnFailure.CLOSED),
    Kind.GATE: KindRules("awaited in order", Colour.EITHER, 10.0, OnFailure.OPERATION_FAILS),
    Kind.WRAP: KindRules("nested `call_next`", Colour.ASYNC_ONLY, None, OnFailure.ERROR_RESULT),
}


@dataclass(frozen=True, slots=True)
class Spec:
    """One hook: its kind, its exact arguments and its policy.

    Attributes:
        subject: the argument whose scope decides who hears the call (an
            implementation added through an agent's scope hears that agent and
            its descendants only), or None for a hook that all hear.
        value: for a rewrite, the argument that each implementation may replace.
        guarded: for a decide, whether it denies while a guard is absent.
    """

    name: str
    kind: Kind
    arguments: tuple[str, ...]
    colour: Colour
    timeout: float | None
    on_failure: OnFailure
    subject: str | None = None
    value: str | None = None
    guarded: bool = False
