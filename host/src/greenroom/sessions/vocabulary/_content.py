"""What a message is made of: blocks, their source, references to blobs.

Constructors refuse unknown fields, decoders ignore them, so that an older
reader can read what a newer writer added.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct

JsonObject: TypeAlias = dict[str, Any]  # any JSON: the log stores it, nobody interprets it
JsonValue: TypeAlias = Any  # the same, of any kind

Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=512)]
Count: TypeAlias = Annotated[int, Meta(ge=0)]
Ordinal: TypeAlias = Annotated[int, Meta(ge=1)]


class Blob(Struct, frozen=True, gc=False):
    """A reference to bytes that the session's store keeps; `bytes` is their number."""

    sha256: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
    bytes: Count


LongText: TypeAlias = str | Blob
"""A text, or where it stands when it is longer than 64 KiB."""


class Text(Struct, frozen=True, tag_field="type", tag="text"):
    """A block of text."""

    text: LongText


class Image(Struct, frozen=True, omit_defaults=True, tag_field="type", tag="image"):
    """An image: base64 `data`, or a blob of the same store."""

    media_type: Name
    data: str | None = None
    blob: Blob | None = None

    def __post_init__(self) -> None:
        if (self.data is None) == (self.blob is None):
            raise ValueError("an image has either data or blob")


class Attachment(Struct, frozen=True, tag_field="type", tag="attachment"):
    """A named piece of text that came along with a message (a file, a selection)."""

    kind: Name
    title: str
    text: LongText


Content: TypeAlias = Text | Image | Attachment


class UserSource(Struct, frozen=True, tag_field="kind", tag="user"):
    """A person wrote it."""


class PluginSource(Struct, frozen=True, tag_field="kind", tag="plugin"):
    """A plugin wrote it."""

    plugin: Name


class AgentSource(Struct, frozen=True, tag_field="kind", tag="agent"):
    """Another agent wrote it."""

    agent_id: Name


class ModelSource(Struct, frozen=True, tag_field="kind", tag="model"):
    """The model wrote it."""


class ToolSource(Struct, frozen=True, tag_field="kind", tag="tool"):
    """A tool call brought it."""

    call_id: Name


class SystemSource(Struct, frozen=True, tag_field="kind", tag="system"):
    """The host wrote it."""


Source: TypeAlias = UserSource | PluginSource | AgentSource | ModelSource | ToolSource | SystemSource


class Message(Struct, frozen=True):
    """Input for the model, identified so that it can be claimed, acknowledged and found."""

    id: Name
    content: tuple[Content, ...]
    source: Source


class ToolRequest(Struct, frozen=True):
    """A tool call that the model asked for; it exists before the call has started."""

    call_id: Name
    name: Name
    input: JsonObject


Role: TypeAlias = Literal["user", "assistant", "tool"]
Status: TypeAlias = Literal["completed", "failed", "canceled", "unknown"]
