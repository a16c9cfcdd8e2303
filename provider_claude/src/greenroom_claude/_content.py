"""Messages of ours as user messages on the wire."""

from __future__ import annotations

from collections.abc import Iterable

from greenroom.providers import Json, JsonObject, Notice, ProviderError
from greenroom.sessions import Message
from greenroom.sessions.vocabulary import Attachment, Image, Text

from ._wire import Frame, text_at, texts_at


def user_frame(ident: str, messages: Iterable[Message]) -> Frame:
    """One user message that holds all of `messages`. A single text stays a string, so a slash command is one.

    Raises:
        ProviderError: there is nothing in them that can be sent.
    """
    blocks = [_block(part) for message in messages for part in message.content]
    content: Json = blocks[0]["text"] if len(blocks) == 1 and "text" in blocks[0] else [*blocks]
    if not content:
        raise ProviderError("the prompt is empty", hint="write something")
    message: JsonObject = {"role": "user", "content": content}
    return {"type": "user", "message": message, "parent_tool_use_id": None, "session_id": "", "uuid": ident}


def _block(part: Text | Image | Attachment) -> JsonObject:
    if isinstance(part, Image):
        if part.data is None:
            raise _stored_apart("an image")
        return {"type": "image", "source": {"type": "base64", "media_type": part.media_type, "data": part.data}}
    if not isinstance(part.text, str):
        raise _stored_apart("a text")
    if isinstance(part, Attachment):
        return {"type": "text", "text": f"<{part.kind} title={part.title!r}>\n{part.text}\n</{part.kind}>"}
    return {"type": "text", "text": part.text}


def _stored_apart(what: str) -> ProviderError:
    return ProviderError(f"{what} of the prompt is stored apart and is not here", hint="attach it again")


def plain_text(message: Message) -> str | None:
    """The text of a message that is nothing but one text."""
    part = message.content[0] if len(message.content) == 1 else None
    return part.text if isinstance(part, Text) and isinstance(part.text, str) else None


def rewound(answer: JsonObject) -> Notice:
    """What to say when files were taken back.

    Raises:
        ProviderError: they were not.
    """
    if answer.get("canRewind") is False:
        raise ProviderError(text_at(answer, "error") or "the files cannot be taken back to that message")
    changed = texts_at(answer, "filesChanged")
    told = ", ".join(changed) if changed else "no file had changed"
    return Notice(message=f"Files are as they were before that message: {told}", code="rewound")
