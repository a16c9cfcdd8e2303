"""What can be chosen: read from the agent's answer to `initialize`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from greenroom.providers import Catalogue, Command, Json, Mode, Model

from ._wire import int_at, objects_at, text_at, texts_at

MODES = (
    Mode("default", "Ask", "Asks before it edits files and runs commands"),
    Mode("acceptEdits", "Accept edits", "Edits files in the folder without asking"),
    Mode("plan", "Plan", "Reads and plans, changes nothing"),
    Mode("dontAsk", "Don't ask", "Denies what the rules do not allow"),
    Mode("auto", "Auto", "Decides by itself what it may do"),
    Mode("bypassPermissions", "Bypass permissions", "Never asks; only for sandboxes"),
)
"""The permission modes; `bypassPermissions` works only if the session was started with the ability."""

REWIND = Command(
    name="rewind",
    description="Take back what was done to files since a message (default: the last one)",
    argument_hint="[id]",
)
"""Our own command: the agent's is for its terminal only."""

_DATE = re.compile(r"-20\d{6}(?=\[|$)")
_LONG_CONTEXT = "[1m]"
_LONG_WINDOW = 1_000_000


def modes(*, bypass: bool) -> tuple[Mode, ...]:
    """The modes of a session; `bypass`: it was started with the ability."""
    return MODES if bypass else MODES[:-1]


def catalogue(initialized: Json) -> Catalogue:
    """Models, modes and commands in the answer to `initialize`. A new object each time; exactly one default model."""
    rows = objects_at(initialized, "models")
    ids = [text_at(row, "value") for row in rows]
    default = next((ident for ident in ids if ident == "default"), next(filter(None, ids), None))
    models = tuple(
        Model(
            id=ident,
            label=text_at(row, "displayName") or ident,
            description=text_at(row, "description"),
            default=ident == default,
            thinking=tuple(texts_at(row, "supportedEffortLevels")),
            context_window=int_at(row, "contextWindow") or (_LONG_WINDOW if ident.endswith(_LONG_CONTEXT) else None),
        )
        for ident, row in zip(ids, rows, strict=True)
        if ident
    )
    told = objects_at(initialized, "commands")
    commands = (
        Command(
            name=text_at(row, "name") or "",
            description=text_at(row, "description") or "",
            argument_hint=text_at(row, "argumentHint") or "",
        )
        for row in told
    )
    named = tuple(command for command in commands if command.name and command.name != REWIND.name)
    return Catalogue(models=models, modes=MODES, commands=(*named, REWIND))


def plain_model(ident: str) -> str:
    """A model's id without the date of its release; the mark of the long context stays."""
    return _DATE.sub("", ident)


def model_of(runtime: str | None, initialized: Json) -> str | None:
    """The id in the catalogue of the model that the agent says it uses; None if it offers no such model.

    The default is named only if no other row stands for the model.
    """
    if not runtime:
        return None
    wanted = plain_model(runtime)
    found: Sequence[str] = [
        ident
        for row in objects_at(initialized, "models")
        if (ident := text_at(row, "value"))
        and wanted in {plain_model(ident), plain_model(text_at(row, "resolvedModel") or "")}
    ]
    return next((ident for ident in found if ident != "default"), found[0] if found else None)
