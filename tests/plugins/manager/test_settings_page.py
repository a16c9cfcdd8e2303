"""The tables of the manager on the settings page are whole and accepted."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from pydantic import BaseModel

from greenroom_manager._settings import AttentionSettings, ManagerSettings, PermissionSettings, ProviderSettings

PAGE = Path(__file__).resolve().parents[3] / "docs/settings.md"
BLOCKS = re.findall(r"^```toml\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def _table() -> dict:
    [block] = [block for block in BLOCKS if "[plugins.manager" in block]
    return tomllib.loads(block)["plugins"]["manager"]


def test_the_settings_page_is_accepted() -> None:
    read = ManagerSettings.model_validate(_table())
    assert read.providers["work"].extends == "claude"
    assert read.permissions.headless == "allow-list"
    assert read.attention.bell == ("error", "permission")


def test_the_settings_page_shows_every_key() -> None:
    table = _table()
    shown = {key for provider in table["providers"].values() for key in provider}
    models: list[tuple[set[str], type[BaseModel]]] = [
        (set(table), ManagerSettings),
        (shown, ProviderSettings),
        (set(table["permissions"]), PermissionSettings),
        (set(table["attention"]), AttentionSettings),
    ]
    for keys, model in models:
        assert keys == set(model.model_fields)
