"""The messages of an open step: pieces as they come, one final piece each.

The surface of a session holds a message once, at its final piece, so every piece has a message id (minted where the
provider has none) and every message of text gets a final piece before its step closes, empty if need be. Thinking
text is not model-visible and needs none.
"""

from __future__ import annotations

from typing import Final

from greenroom.providers import MessageDone, ReasoningDelta, TextDelta
from greenroom.sessions.vocabulary import AssistantMessage, AssistantReasoning

from ._coalescer import PIECE_CHARS
from ._dated import Log

Delta = TextDelta | ReasoningDelta
_TEXT: Final = "text"
_REASONING: Final = "reasoning"


class Texts:
    """The open messages of one step at a time."""

    def __init__(self, session: Log) -> None:
        self._session = session
        self._open: dict[tuple[str, str], list[str]] = {}
        self._done: set[tuple[str, str]] = set()
        self._anonymous: tuple[str, str] | None = None
        self._minted = 0
        self._at = (0, 0)

    def enter(self, turn: int, step: int) -> None:
        """A step begins."""
        self._at = (turn, step)
        self._minted = 0
        self._done.clear()

    def write(self, event: Delta, *, final: bool) -> None:
        """Log a piece, in parts if it is longer than a text may be."""
        key = self._key(event)
        if key in self._done:
            return  # the message was final; what still comes repeats it
        streamed = self._open.setdefault(key, [])
        text = event.text
        while len(text) > PIECE_CHARS:
            streamed.append(text[:PIECE_CHARS])
            self._append(key, text[:PIECE_CHARS], final=False)
            text = text[PIECE_CHARS:]
        streamed.append(text)
        if final:
            self._close(key, text)
        else:
            self._append(key, text, final=False)

    def done(self, event: MessageDone) -> None:
        """Log what was not streamed of a finished message, as its final piece."""
        key = (_REASONING if event.reasoning else _TEXT, event.message_id)
        if key in self._done:
            return
        streamed = "".join(self._open.get(key, ()))
        whole = event.text if event.text is not None else streamed
        rest = whole[len(streamed) :] if whole.startswith(streamed) else ""
        if not streamed and not rest:
            self._open.pop(key, None)
            return
        self._open.setdefault(key, [])
        while len(rest) > PIECE_CHARS:
            self._append(key, rest[:PIECE_CHARS], final=False)
            rest = rest[PIECE_CHARS:]
        self._close(key, rest)

    def ends_with(self, event: Delta, following: object) -> bool:
        """Whether what follows closes the message of this piece, so that the piece itself can be final."""
        if following is None:
            return False
        if event.message_id is None:
            return not (type(following) is type(event) and getattr(following, "message_id", "") is None)
        return (
            isinstance(following, MessageDone)
            and following.message_id == event.message_id
            and following.reasoning is isinstance(event, ReasoningDelta)
            and following.text is None
        )

    def interrupt(self) -> None:
        """Something else is logged: a message without an id of its own ends here."""
        if self._anonymous is not None:
            self._end_anonymous()

    def close(self, *, interrupted: bool = False) -> None:
        """Give every open message its final piece: the step closes."""
        for key in list(self._open):
            self._close(key, "", interrupted=interrupted)
        self._anonymous = None

    def _key(self, event: Delta) -> tuple[str, str]:
        kind = _TEXT if isinstance(event, TextDelta) else _REASONING
        if event.message_id is not None:
            if self._anonymous is not None:
                self._end_anonymous()
            return kind, event.message_id
        if self._anonymous is not None and self._anonymous[0] != kind:
            self._end_anonymous()
        if self._anonymous is None:
            self._minted += 1
            turn, step = self._at
            self._anonymous = (kind, f"{turn}.{step}.{self._minted}")
        return self._anonymous

    def _end_anonymous(self) -> None:
        if self._anonymous in self._open:
            self._close(self._anonymous, "")
        self._anonymous = None

    def _close(self, key: tuple[str, str], text: str, *, interrupted: bool = False) -> None:
        streamed = self._open.pop(key)
        self._done.add(key)
        if key == self._anonymous:
            self._anonymous = None
        if text or (key[0] == _TEXT and any(streamed)):
            self._append(key, text, final=True, interrupted=interrupted)

    def _append(self, key: tuple[str, str], text: str, *, final: bool, interrupted: bool = False) -> None:
        turn, step = self._at
        kind, message_id = key
        if kind == _TEXT:
            piece = AssistantMessage(turn, step, text, message_id, final, interrupted)
            self._session.append("assistant/message", piece, surface="append" if final else None)
        else:
            self._session.append(
                "assistant/reasoning", AssistantReasoning(turn, step, text, message_id, final, interrupted)
            )
