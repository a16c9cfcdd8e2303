"""The table `[plugins.manager]`."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from greenroom.agents import AttentionReason

_STRICT = ConfigDict(extra="forbid", frozen=True)


class ModelSettings(BaseModel):
    """A model that the user adds to a provider's, or changes; what is not given stays as the provider has it."""

    model_config = _STRICT

    id: str = Field(min_length=1)
    label: str | None = None
    description: str | None = None
    default: bool | None = None
    thinking: tuple[str, ...] | None = None
    context_window: int | None = Field(default=None, gt=0)


class ProviderSettings(BaseModel):
    """`[plugins.manager.providers.<id>]`: of a provider that a plugin brings, or of a new one that `extends` it.

    Attributes:
        enabled: whether new agents may use it, and whether it is probed.
        label: what people read.
        extends: the provider that a new one is another way to start.
        command: program and arguments, in place of what the provider takes.
        arguments: further arguments.
        env: variables for its processes.
        disallowed_tools: tools that its agents may not use.
        models: in place of what the provider lists.
        additional_models: beside them; one that is listed is changed in what is given.
    """

    model_config = _STRICT

    enabled: bool = True
    label: str | None = Field(default=None, min_length=1)
    extends: str | None = Field(default=None, min_length=1)
    command: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    env: dict[str, str] = Field(default_factory=dict)
    disallowed_tools: tuple[str, ...] = ()
    models: tuple[ModelSettings, ...] | None = None
    additional_models: tuple[ModelSettings, ...] = ()


class PermissionSettings(BaseModel):
    """`[plugins.manager.permissions]`: what is answered where nobody can be asked.

    Attributes:
        headless: `deny` everything; `allow-list`: allow the tools of `allow`, deny the rest; `fail`: end the turn.
        allow: names or patterns of tools.
        wait: seconds that a question waits for somebody before this policy answers it; None = as long as it takes.
    """

    model_config = _STRICT

    headless: Literal["deny", "allow-list", "fail"] = "deny"
    allow: tuple[str, ...] = ()
    wait: float | None = Field(default=None, ge=0)


class AttentionSettings(BaseModel):
    """`[plugins.manager.attention]`: `bell` are the reasons to ring the terminal's bell for."""

    model_config = _STRICT

    bell: tuple[AttentionReason, ...] = ("finished", "error", "permission")


class ManagerSettings(BaseModel):
    """`[plugins.manager]`."""

    model_config = _STRICT

    providers: dict[str, ProviderSettings] = Field(default_factory=dict)
    permissions: PermissionSettings = PermissionSettings()
    attention: AttentionSettings = AttentionSettings()
