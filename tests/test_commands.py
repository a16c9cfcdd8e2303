"""Every command, of the host and of each plugin in this repository: what people can expect of all of them."""

from __future__ import annotations

import importlib
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from greenroom.cli._frame import BUILT_IN, root

ROOT = Path(__file__).parent.parent
LISTINGS = {"list", "show"}


def _targets() -> dict[str, str]:
    found = {name: target for name, (target, _) in BUILT_IN.items()}
    for file in (
        *ROOT.glob("host/pyproject.toml"),
        *ROOT.glob("plugins/*/pyproject.toml"),
        *ROOT.glob("provider_*/pyproject.toml"),
    ):
        points = tomllib.loads(file.read_text())["project"].get("entry-points", {})
        found |= points.get("greenroom.commands", {})
    return found


def _walk(path: tuple[str, ...], command: click.Command) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        for name, child in command.commands.items():
            yield from _walk((*path, name), child)


def _load(target: str) -> click.Command:
    module, _, attribute = target.partition(":")
    command = getattr(importlib.import_module(module), attribute)
    assert isinstance(command, click.Command)
    return command


COMMANDS = {
    " ".join(path): command for name, target in _targets().items() for path, command in _walk((name,), _load(target))
}


def test_the_walk_finds_commands_of_the_host_and_of_plugins():
    assert {"plugins list", "settings show", "sessions export", "run", "log"} <= COMMANDS.keys()


@pytest.mark.parametrize("path", COMMANDS)
def test_the_help_of_a_command_shows_an_example_of_it(path):
    parent = click.Context(root, info_name="greenroom")
    *groups, name = path.split()
    for group in groups:
        parent = click.Context(root, parent, info_name=group)
    text = " ".join(COMMANDS[path].get_help(click.Context(COMMANDS[path], parent, info_name=name)).split())
    assert "Example" in text
    example = text.rpartition("Example")[2]
    assert "greenroom " in example
    assert f" {path}" in example.replace(" ...", "")


@pytest.mark.parametrize("path", [path for path in COMMANDS if path.split()[-1] in LISTINGS])
def test_a_listing_can_be_printed_as_json(path):
    options = [name for parameter in COMMANDS[path].params for name in parameter.opts]
    assert "--json" in options
