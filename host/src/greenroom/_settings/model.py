"""The section of one plugin, and its check against the plugin's own model."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from greenroom._settings.layers import did_you_mean, put
from greenroom.errors import PluginError, SettingsError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import BaseModel, ValidationError

    from greenroom._settings.layers import KeyPath, Origin

Model = TypeVar("Model", bound="BaseModel")


@dataclass(frozen=True, slots=True)
class PluginSection:
    """What the settings say about one plugin.

    Attributes:
        plugin: its id.
        table: the name of its table as it is written.
        values: the plugin's own keys, without the host's.
        guard: while the plugin is not active, decisions are denied.
        required: the host does not start without it.
        timeout_cap: seconds; the longest time-out that the plugin may ask for.
        origins: where each value comes from, by its path inside the table.
        raw: the texts of values that were given as text (variables, options).
    """

    plugin: str
    table: str
    values: Mapping[str, object]
    guard: bool
    required: bool
    timeout_cap: float
    origins: Mapping[KeyPath, Origin]
    raw: Mapping[KeyPath, str]

    def where(self, path: KeyPath) -> Origin | None:
        """The origin of a value, or of the nearest value beside it; None when the table is empty."""
        for length in range(len(path), -1, -1):
            for known, origin in self.origins.items():
                if known[:length] == path[:length]:
                    return origin
        return None


def refuse_values(section: PluginSection) -> None:
    """Check the settings of a plugin without a model.

    Raises:
        SettingsError: there are any.
    """
    for key in section.values:
        message = f"the plugin {section.plugin} takes no settings, but [{section.table}] has {key!r}"
        hint = "remove the table, or load a version that implements plugin_settings"
        raise SettingsError(message, hint=hint, plugin=section.plugin)


def validate_plugin(section: PluginSection, model: type[Model]) -> Model:
    """The plugin's settings as its model.

    A key that the model does not know is an error, unless the model sets `extra` itself. A value from a
    variable or an option that looked like a number is taken as text where the model wants text.

    Raises:
        SettingsError: naming file and line, table and key of each problem, never the values.
        PluginError: the model is no pydantic model class, or fails by itself.
    """
    from pydantic import ValidationError  # 45 ms that commands without a host need not pay

    _check_model(section, model)
    problems = _unknown_keys(section, model)
    values = copy.deepcopy(dict(section.values))
    try:
        result = _validate(values, section, model)
    except ValidationError as error:
        problems += _problems(section, error)
    except Exception as error:  # a validator of the plugin failed in its own way; mapped, not swallowed
        message = f"the settings model of {section.plugin} failed: {type(error).__name__}: {error}"
        hint = "a validator reports a wrong value with ValueError; anything else is a mistake of the plugin"
        raise PluginError(message, hint=hint, plugin=section.plugin) from error
    else:
        if not problems:
            return result
    message = "\n".join([f"the settings of the plugin {section.plugin} are wrong:", *(f"  {p}" for p in problems)])
    hint = f"`greenroom settings schema {section.plugin}` shows what [{section.table}] may hold"
    raise SettingsError(message, hint=hint, plugin=section.plugin)


def _check_model(section: PluginSection, model: object) -> None:
    from pydantic import BaseModel

    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        message = f"plugin_settings() of {section.plugin} returned {model!r}"
        hint = "return a class that derives from pydantic.BaseModel"
        raise PluginError(message, hint=hint, plugin=section.plugin)


def _validate(values: dict[str, object], section: PluginSection, model: type[Model]) -> Model:
    from pydantic import ValidationError

    try:
        return model.model_validate(values)
    except ValidationError as error:
        wanted = [_path(item["loc"]) for item in error.errors() if item["type"] == "string_type"]
        texts = [path for path in wanted if path in section.raw]
        if not texts:
            raise
        for path in texts:
            put(values, path, section.raw[path])
        return model.model_validate(values)


def _unknown_keys(section: PluginSection, model: type[BaseModel]) -> list[str]:
    if model.model_config.get("extra") is not None:
        return []
    known: set[str] = set()
    for name, field in model.model_fields.items():
        alias = field.validation_alias
        choices = getattr(alias, "choices", [alias])  # AliasChoices, or one alias
        keys = [getattr(choice, "path", [choice])[0] for choice in choices]  # AliasPath, or a name
        known |= {name, *(key for key in keys if isinstance(key, str))}
    unknown = [key for key in section.values if key not in known]
    return [_line(section, (key,), f"unknown key; {did_you_mean(key, known)}") for key in unknown]


def _problems(section: PluginSection, error: ValidationError) -> list[str]:
    return [_line(section, _path(item["loc"]), item["msg"]) for item in error.errors(include_input=False)]


def _path(loc: tuple[int | str, ...]) -> KeyPath:
    return tuple(str(part) for part in loc)


def _line(section: PluginSection, path: KeyPath, problem: str) -> str:
    origin = section.where(path)
    place = f"{origin}: [{section.table}]" if origin else f"[{section.table}]"
    return f"{place} {'.'.join(path)}: {problem}" if path else f"{place}: {problem}"
