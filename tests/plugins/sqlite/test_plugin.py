"""The plugin in a host: it takes the slot, and sessions outlive the process."""

from __future__ import annotations

import pytest

import greenroom_sqlite
from greenroom import Host, load_settings
from greenroom.sessions import MemoryStore
from greenroom.sessions.vocabulary import Reason, Trigger, TurnEnd, TurnStart
from greenroom_testing import PluginConformance


class TestSqlitePlugin(PluginConformance):
    plugin = greenroom_sqlite
    settings = {"barrier": "normal"}


def host(folder, **settings):
    overrides = {f"plugins.sqlite.{key}": value for key, value in settings.items()}
    return Host(
        load_settings(overrides=overrides), data_directory=folder, discovery=False, plugins={"sqlite": greenroom_sqlite}
    )


@pytest.mark.anyio
async def test_a_session_of_one_host_is_resumed_by_the_next(tmp_path):
    async with host(tmp_path) as first:
        entered = await first.sessions.create(first.sessions.new_header("s"))
        entered.session.append("turn/start", TurnStart(1, Trigger("message")))
        entered.session.append("turn/end", TurnEnd(1, Reason("completed")))
        await entered.close()
    assert (tmp_path / "sessions.db").exists()
    async with host(tmp_path, barrier="normal", window_ms="50") as second:
        prepared = await second.sessions.prepare_resume("s")
        assert len(prepared.session) == 2
        await prepared.discard()


@pytest.mark.anyio
async def test_nothing_is_created_before_there_is_a_session(tmp_path):
    async with host(tmp_path) as made:
        assert list(await made.sessions.store.list()) == []
    assert not (tmp_path / "sessions.db").exists()


@pytest.mark.anyio
async def test_a_host_without_a_place_for_files_keeps_its_sessions_in_memory():
    async with host(None) as made:
        assert isinstance(made.sessions.store, MemoryStore)
