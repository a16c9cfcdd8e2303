"""The page docs/events.md: the vocabulary of sessions as a reader of a log needs it.

Run it through `scripts/generate_docs.py events`.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Iterable, Iterator

import msgspec

from greenroom.sessions import FORMAT_VERSION, MAX_DEPTH, MAX_EVENT_BYTES, MAX_TEXT_BYTES, Event, EventType, Header
from greenroom.sessions.vocabulary import (
    ABORT_CAUSES,
    CORE_REASONS,
    CORE_TRIGGERS,
    CORE_TYPES,
    OUTSIDE_WHEN_STRICT,
)

INTRO = f"""\
# Events

Generated from `greenroom.sessions.vocabulary` by `scripts/generate_docs.py events`; edit the vocabulary, not this
page. Format version {FORMAT_VERSION}: names of types and kinds are never renamed and never reused.

A session is a header and a log. Each event of the log is one JSON object: `seq` (dense from 0), `time`
(milliseconds since the epoch, never used for ordering), `type`, `data`, and where they apply `ignorable: true`,
`surface` (`"append"`, or `{{"replace": [first, last]}}`) and `sources` (the seqs it stands for).

**Enclosure** says where a type may stand: it *opens* or *closes* a turn, stands inside an open *turn* or an open
*step*, or is *free*. With `enclosure = "strict"` only {", ".join(f"`{n}`" for n in sorted(OUTSIDE_WHEN_STRICT))}
stand outside a turn.
**Timeline**: a *row*, a *row-on-failure* (only when the turn failed or was interrupted), a *patch* of an older row,
or a *reset*. **Model**: the event is model-visible and carries `surface`; a piece of an assistant message that is
not its last one carries none. An *ignorable* type is skipped by a reader that does not know it.

Limits: {MAX_EVENT_BYTES:,} bytes and {MAX_DEPTH} levels an event; texts above {MAX_TEXT_BYTES:,} bytes go into a blob.

## Types

| type | enclosure | timeline | model | ignorable |
|---|---|---|---|---|
"""

DATA = """
## Data

A field with a default may be absent. `Name` is a text that is not empty, `Count` a number from 0, `Ordinal` one from 1,
`LongText` a text or the `Blob` it stands in, `JsonValue` and `JsonObject` anything in JSON.
"""


def events_page() -> str:
    """Return docs/events.md."""
    return "".join(
        (
            INTRO,
            *(_row(kind) for kind in CORE_TYPES),
            _kinds(),
            DATA,
            *(_section(f"`{kind.name}`", kind.model) for kind in CORE_TYPES),
            "\n## Parts\n",
            *(_section(f"{struct.__name__}{_tag(struct)}", struct) for struct in _parts()),
            "\n## Envelope and header\n",
            _section("Event", Event),
            _section("Header", Header),
        )
    )


def _row(kind: EventType) -> str:
    marks = ("yes" if kind.surface else "", "yes" if kind.ignorable else "")
    return f"| `{kind.name}` | {kind.enclosure} | {kind.timeline or ''} | {marks[0]} | {marks[1]} |\n"


def _kinds() -> str:
    reasons = "\n".join(
        f"- `{reason.name}`" + (f": {', '.join(f'`{need}`' for need in reason.needs)}" if reason.needs else "")
        for reason in CORE_REASONS
    )
    return (
        f"\n## Kinds\n\nA turn is opened by: {', '.join(f'`{kind.name}`' for kind in CORE_TRIGGERS)}.\n\n"
        f"It ends for a reason, with the fields that the reason needs:\n\n{reasons}\n\n"
        f"What aborts: {', '.join(f'`{cause}`' for cause in ABORT_CAUSES)}. Plugins register more kinds; unknown\n"
        "ones are kept as data on reading.\n"
    )


def _section(title: str, model: type) -> str:
    text = " ".join((inspect.getdoc(model) or "").split("\n\n")[0].split())
    lines = [f"\n### {title}\n\n{text}\n"]
    fields = msgspec.structs.fields(model)
    if fields:
        lines.append("\n")
    lines.extend(f"- `{field.encode_name}`: `{_type(model, field.name)}`{_default(field)}\n" for field in fields)
    return "".join(lines)


def _type(model: type, name: str) -> str:
    owner = next(base for base in model.__mro__ if name in inspect.get_annotations(base))
    return str(inspect.get_annotations(owner)[name])


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return ""
    if field.default is None or field.default is msgspec.NODEFAULT:
        return ", optional"
    return f", else `{field.default!r}`"


def _tag(struct: type) -> str:
    config = struct.__struct_config__  # type: ignore[attr-defined]  # every Struct has one
    return f" (`{config.tag_field}: {config.tag}`)" if config.tag_field else ""


def _parts() -> list[type]:
    """Every Struct that stands inside a payload, each once, in the order in which a reader meets it."""
    payloads = [kind.model for kind in CORE_TYPES]
    return list(dict.fromkeys(part for model in payloads for part in _inside(model)))


def _inside(model: type) -> Iterator[type]:
    for field in msgspec.structs.fields(model):
        for part in _structs(field.type):
            yield part
            yield from _inside(part)


def _structs(annotation: object) -> Iterable[type]:
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return [annotation]
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is not None:
        return [part for argument in typing.get_args(annotation) for part in _structs(argument)]
    return []
