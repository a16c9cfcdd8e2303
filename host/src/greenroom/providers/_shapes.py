"""What crosses the provider seam as plain data: capabilities, catalogues, handles, requests and receipts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from ._details import JsonObject, Mode


class Capability(StrEnum):
    """What a provider can do beyond `start_turn`, `interrupt`, `respond` and `aclose`."""

    RESUME = "resume"
    """`open` continues a native conversation from its `handle`."""
    STEER = "steer"
    """`ProviderSession.steer` can put a message into the running turn."""
    HISTORY = "history"
    """`ProviderSession.history` replays the native conversation."""
    REVERT = "revert"
    """`ProviderSession.revert` cuts the native conversation before a message."""
    PERMISSIONS = "permissions"
    """It asks (`permission_requested`)."""
    IMAGES = "images"
    """Prompts may hold images."""
    MODELS = "models"
    """`set_model` works on a live session."""
    MODES = "modes"
    """`set_mode` works on a live session."""
    THINKING = "thinking"
    """`set_thinking` works on a live session."""
    FEATURES = "features"
    """`set_feature` works on a live session."""
    BACKGROUND = "background"
    """Work may go on after a turn, and turns may begin by themselves."""
    OUT_OF_BAND = "out_of_band"
    """Some prompts are commands that start no turn."""
    REVEALS_STEPS = "reveals_steps"
    """It emits `step_boundary` before each further model request."""
    TOOLS = "tools"
    """It can reach the host's tools at `ProviderLink.tools`."""
    SYSTEM_PROMPT = "system_prompt"
    """It hands `ProviderLink.prompt` to the model."""
    LIST = "list"
    """`Provider.list_native` and `import_native` find conversations that were started elsewhere."""
    ARCHIVE = "archive"
    """`Provider.archive_native` and `unarchive_native`."""
    DELETE = "delete"
    """`Provider.delete_native`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Availability:
    """Whether a provider can be used on this machine, and why not.

    Attributes:
        ok: a session can be opened now.
        binary: where the program was found, or None (not found, or there is none).
        version: of the program.
        login: what is known of the account, for a person ("api key", "signed in as …"), None when unknown.
        problem, hint: why `ok` is false, and what to do.
    """

    ok: bool
    binary: str | None = None
    version: str | None = None
    login: str | None = None
    problem: str | None = None
    hint: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model that a provider offers; `thinking` are the ids of its levels, `context_window` is in tokens."""

    id: str
    label: str
    description: str | None = None
    default: bool = False
    thinking: tuple[str, ...] = ()
    context_window: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """A switch (`options` empty) or a choice that a provider offers beside mode, model and thinking level."""

    id: str
    label: str
    value: str | bool | None = None
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A prompt that begins with `/name` and that the provider treats by itself."""

    name: str
    description: str = ""
    argument_hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """What can be chosen before a session is opened."""

    models: tuple[Model, ...] = ()
    modes: tuple[Mode, ...] = ()
    features: tuple[Feature, ...] = ()
    commands: tuple[Command, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Handle:
    """What finds a native conversation again: its id, and what the provider wants to remember with it."""

    native_id: str
    data: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeSession:
    """A conversation on this machine that was started without us. `updated_at` is in ms since the epoch."""

    handle: Handle
    cwd: Path
    title: str | None = None
    first_prompt: str | None = None
    updated_at: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeInfo:
    """What the provider reports that it uses now, as opposed to what it was asked for; None = not known.

    `features` are the values of those features that it tells about.
    """

    model: str | None = None
    mode: str | None = None
    thinking: str | None = None
    context_window: int | None = None
    features: Mapping[str, str | bool | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How the user wants a provider's program to be started; every part may be empty.

    Attributes:
        command: the program and its arguments, in place of what the provider would take.
        arguments: further arguments, behind those of the provider.
        env: variables to add to what of our environment the provider passes on; what the host adds for one agent wins.
        disallowed_tools: names of tools that no agent of the provider may use, beside those that it rules out itself.
    """

    command: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    disallowed_tools: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedProcess:
    """A process that a provider session has started, as it is written to the session's row.

    `group` is its process group (and session) id if it leads one. When it started is added by the host, since a
    process id alone identifies nothing.
    """

    pid: int
    group: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BackgroundWork:
    """Something that goes on after a turn has ended, for example a shell that was left running."""

    id: str
    description: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolEndpoint:
    """Where the tools of one agent are served; `token` is its bearer token, never logged."""

    url: str
    token: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenRequest:
    """What `Provider.open` is asked for.

    Attributes:
        session_id: our id of the session, which is the agent's.
        cwd: absolute, exists.
        model, mode, thinking: None = the provider's default.
        features: chosen values by feature id.
        max_output_tokens: upper bound of one answer, or None.
        handle: the native conversation to continue, or None for a new one.
    """

    session_id: str
    cwd: Path
    model: str | None = None
    mode: str | None = None
    thinking: str | None = None
    features: Mapping[str, str | bool | None] = field(default_factory=dict)
    max_output_tokens: int | None = None
    handle: Handle | None = None


class Steered(StrEnum):
    """What became of a message that was to join a running turn."""

    ACCEPTED = "accepted"
    """The turn has it."""
    UNAVAILABLE = "unavailable"
    """It was never delivered; it may be sent again."""
    AMBIGUOUS = "ambiguous"
    """It may have been delivered; it must not be sent again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interrupted:
    """The provider's receipt for an interrupt. Having one means that it was acknowledged.

    `withdrawn` are the ids of prompts that, it says, will not run. Before a turn is accepted only such an id proves
    anything: an interrupt of an idle provider is a harmless success.
    """

    withdrawn: tuple[str, ...] = ()
