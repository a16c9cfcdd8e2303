"""What policy hooks answer."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Verdict(IntEnum):
    """The three opinions, ordered by strictness: the largest wins."""

    ALLOW = 1
    ASK = 2
    DENY = 3


@dataclass(frozen=True, slots=True)
class Decision:
    """An opinion about a tool call or a request; None stands for no opinion.

    Attributes:
        reason: for people and for the model; says why.
        answer: what the hook wants to say beside its verdict (the response to a
            permission request, for instance).
        by: the id of the plugin that decided; filled in by the dispatcher.
    """

    verdict: Verdict
    reason: str = ""
    answer: object = None
    by: str | None = None


@dataclass(frozen=True, slots=True)
class Block:
    """A rewrite hook's refusal: the chain stops and the value does not enter."""

    reason: str
    by: str | None = None


def allow(reason: str = "", *, answer: object = None) -> Decision:
    """Return the opinion that the subject may go on."""
    return Decision(Verdict.ALLOW, reason, answer)


def ask(reason: str = "") -> Decision:
    """Return the opinion that a person must be asked."""
    return Decision(Verdict.ASK, reason)


def deny(reason: str, *, answer: object = None) -> Decision:
    """Return the opinion that the subject must not go on."""
    return Decision(Verdict.DENY, reason, answer)


def block(reason: str) -> Block:
    """Return the refusal of what a rewrite hook was shown."""
    return Block(reason)
