"""A process that archives or deletes a family and is killed in the middle: `victim.py HOME WAY COUNT`."""

from __future__ import annotations

import sys
from pathlib import Path

import anyio

import greenroom_driver
import greenroom_sqlite
from greenroom import Host, load_settings
from greenroom.agents import PARENT_LABEL, AgentDirectory, AgentSpec
from greenroom_manager import ManagerPlugin
from greenroom_testing import ScriptedPlugin, ScriptedProvider


def plugins(provider: ScriptedProvider) -> dict[str, object]:
    return {
        "sqlite": greenroom_sqlite,
        "driver": greenroom_driver,
        "scripted": ScriptedPlugin(provider),
        "manager": ManagerPlugin(),
    }


def tell(what: str) -> None:
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


def settings():
    """A killed process loses nothing that was written; only a loss of power would ask for more."""
    return load_settings(overrides={"plugins.sqlite.barrier": "normal"})


def parents(count: int) -> dict[str, str | None]:
    """A family: a root, and `count` descendants in a tree of three."""
    return {"root": None} | {f"c{n}": "root" if n < 3 else f"c{n // 3}" for n in range(count)}


async def main(home: Path, way: str, count: int) -> None:
    provider = ScriptedProvider()

    async def say(_session) -> None:
        tell("closing")
        await anyio.sleep(0.002)

    provider.closing = say
    async with Host(settings(), data_directory=home, discovery=False, plugins=plugins(provider)) as host:
        directory = host.service(AgentDirectory)
        for number, (agent_id, parent) in enumerate(parents(count).items()):
            labels = {PARENT_LABEL: parent} if parent is not None else {}
            await directory.create(AgentSpec(id=agent_id, title=agent_id, labels=labels))
            if number % 4 == 3:
                await directory.close(agent_id)
        tell("ready")
        await getattr(directory, way)("root")
        tell("done")
        await anyio.sleep_forever()


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
