"""What is checked before anything is made: the folder, the model's name, the variables."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import anyio.to_thread

from greenroom.agents import AgentError, AgentOptions, AgentRecord, AgentSettings


async def check_cwd(cwd: Path | None) -> Path | None:
    """The folder, absolute; None stays None: the agent has none. Cancelled: the file system may be asked on.

    Raises:
        AgentError: it does not exist, or is no folder.
    """
    if cwd is None:
        return None

    def look() -> tuple[Path, str | None]:
        # Without following links, as a shell shows it.
        absolute = Path(os.path.abspath(cwd.expanduser()))
        if not absolute.exists():
            return absolute, "does not exist"
        return absolute, None if absolute.is_dir() else "is not a directory"

    absolute, problem = await anyio.to_thread.run_sync(look, abandon_on_cancel=True)
    if problem is not None:
        raise AgentError(f"the working directory {absolute} {problem}")
    return absolute


def clean_model(model: str | None) -> str | None:
    """The model that was asked for; nothing, blanks and the name "default" ask for none. Any other name is kept."""
    return None if model is None or model.strip() in ("", "default") else model


def clean_options(options: AgentOptions) -> AgentOptions:
    """The options with `clean_model`; the mode is left as it is, so none that was not asked for is made up."""
    model = clean_model(options.model)
    return options if model == options.model else dataclasses.replace(options, model=model)


def check_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """A copy.

    Raises:
        AgentError: a name or value is no text, or one that no process can be given.
    """
    pairs: Iterable[tuple[object, object]] = environment.items()  # a client's: its annotation is only a promise
    for name, value in pairs:
        if not (isinstance(name, str) and isinstance(value, str) and name) or set("=\0") & set(name) or "\0" in value:
            raise AgentError(f"{name!r} is no variable that a process can be given")
    return dict(environment)


def settings_of(options: AgentOptions) -> AgentSettings:
    """What is kept of the options, for the next start."""
    return AgentSettings(
        model=options.model,
        mode=options.mode,
        thinking=options.thinking,
        features=dict(options.features),
        max_output_tokens=options.max_output_tokens,
    )


def options_of(record: AgentRecord, given: AgentOptions | None = None, *, fresh: bool = False) -> AgentOptions:
    """The options of a start from a record: what is given, else what is kept.

    Mode, model, thinking level and features stand in the log; they are taken from the record only for a session that
    begins afresh.
    """
    given = clean_options(given or AgentOptions())
    kept = record.settings
    chosen = dataclasses.replace(
        given,
        provider=given.provider or record.provider,
        max_output_tokens=given.max_output_tokens or kept.max_output_tokens,
        environment={**record.environment, **given.environment},
    )
    if not fresh:
        return chosen
    return dataclasses.replace(
        chosen,
        model=given.model or kept.model,
        mode=given.mode or kept.mode,
        thinking=given.thinking or kept.thinking,
        features={**features_of(kept), **given.features},
    )


def features_of(settings: AgentSettings) -> dict[str, str | bool | None]:
    """The features that were asked for, without what is no value of a feature."""
    return {name: value for name, value in settings.features.items() if isinstance(value, str | bool | None)}
