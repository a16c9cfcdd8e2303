"""Where hosts listen, who may, and how their clients find them."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import anyio
import pytest

from greenroom.agents import HostGone
from greenroom.errors import GreenroomError
from greenroom_control._address import LIMIT as LONGEST
from greenroom_control._address import alive, reachable

from .rig import Place, until, wire

pytestmark = pytest.mark.anyio
# ruff: noqa: ASYNC240 - looking at a socket's file blocks nobody


def _dead(path: Path) -> None:
    """A socket as a killed host leaves it."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()


async def test_only_the_user_may_connect(host, place) -> None:
    path = Path(host.control.endpoint)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


async def test_a_folder_that_others_may_enter_is_closed(place) -> None:
    folder = place.folder / "endpoints"
    folder.mkdir(parents=True, mode=0o755)
    folder.chmod(0o755)
    async with place.host() as host:
        await host.control.serve()
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


async def test_a_folder_that_is_a_link_is_refused(place, tmp_path) -> None:
    place.folder.mkdir()
    (tmp_path / "elsewhere").mkdir()
    (place.folder / "endpoints").symlink_to(tmp_path / "elsewhere")
    async with place.host() as host:
        with pytest.raises(GreenroomError, match="belongs to somebody else"):
            await host.control.serve()


async def test_a_path_that_is_too_long_for_a_socket_is_a_link_to_a_short_one(tmp_path) -> None:
    place = Place(tmp_path / ("long" * 30) / "data")
    place.folder.parent.mkdir()
    async with place.host() as host, place.host() as other:
        path = Path(await host.control.serve())
        assert len(str(path)) > LONGEST >= len(reachable(path))
        assert stat.S_IMODE(Path(reachable(path)).parent.stat().st_mode) == 0o700
        async with other.control.serving() as remote:
            assert remote.about["data_directory"] == str(place.folder)
    assert not path.is_symlink()
    assert not Path(reachable(path)).exists()


async def test_a_dead_socket_is_cleaned_up_and_served_again(place) -> None:
    folder = place.folder / "endpoints"
    folder.mkdir(parents=True, mode=0o700)
    for name in ("serve.sock", "0123abcd.sock"):
        _dead(folder / name)
    async with place.host() as host, place.host() as other:
        async with other.control.serving() as remote:
            assert remote is None
        await host.control.serve()
        assert sorted(path.name for path in folder.iterdir()) == ["serve.lock", "serve.sock"]
        async with other.control.serving() as remote:
            assert remote is not None


async def test_the_socket_of_a_live_host_is_left_alone_by_another_one_that_cleans_up(place) -> None:
    async with place.host() as private, place.host() as serving:
        await place.agent(private)
        await until(lambda: Path(private.control.endpoint).exists())
        await serving.control.serve()
        assert alive(Path(private.control.endpoint))


async def test_of_two_hosts_that_race_for_the_address_one_serves_and_the_other_is_told_who_does(place) -> None:
    async with place.host() as one, place.host() as two:
        errors = []

        async def serve(host):
            try:
                await host.control.serve()
            except GreenroomError as error:
                errors.append(error)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(serve, one)
            tasks.start_soon(serve, two)
        assert [one.control.desk.serving, two.control.desk.serving].count(True) == 1
        [error] = errors
        assert "serves" in error.args[0]
        late = two if one.control.desk.serving else one
        with pytest.raises(GreenroomError, match=f"process {os.getpid()} serves"):
            await late.control.serve()


async def test_the_address_is_free_when_the_host_has_left(place) -> None:
    for _ in range(2):
        async with place.host() as host:
            await host.control.serve()
            path = Path(host.control.endpoint)
        assert not path.exists()


async def test_a_host_without_a_session_does_not_listen(place) -> None:
    async with place.host():
        assert not (place.folder / "endpoints").exists()


async def test_the_endpoint_of_a_private_host_stands_in_the_rows_of_its_sessions_until_it_gives_them_back(
    place,
) -> None:
    async with place.host() as host:
        handle = await place.agent(host)
        owner = (await host.sessions.store.entry("a")).owner
        assert owner.endpoint == host.control.endpoint
        await handle.dispose()
        assert (await host.sessions.store.entry("a")).owner is None


async def test_a_session_of_the_serving_host_bears_the_known_address(host, place) -> None:
    await place.agent(host)
    assert (await host.sessions.store.entry("a")).owner.endpoint == str(place.folder / "endpoints/serve.sock")


async def test_another_host_finds_the_owner_and_nobody_else_does(place) -> None:
    async with place.host() as mine, place.host() as other:
        handle = await place.agent(mine)
        async with other.control.owner("a") as remote:
            assert remote.about["sessions"] == ["a"]
        async with mine.control.owner("a") as remote:
            assert remote is None
        async with other.control.owner("unheard-of") as remote:
            assert remote is None
        await handle.dispose()
        async with other.control.owner("a") as remote:
            assert remote is None


async def test_the_serving_host_is_not_its_own_client(host) -> None:
    async with host.control.serving() as remote:
        assert remote is None


async def test_a_private_host_serves_only_the_sessions_that_it_owns(place) -> None:
    async with place.host() as mine, place.host() as other:
        await place.agent(mine, "a")
        await place.agent(other, "b")
        async with wire(mine.control.endpoint) as client:
            assert "result" in await client.ask("fetch", agent="a")
            assert [one["record"]["id"] for one in (await client.ask("list"))["result"]["agents"]] == ["a"]
            for method, params in (
                ("fetch", {"agent": "b"}),
                ("subscribe", {"agent": "last"}),
                ("send", {"agent": "b", "text": "x"}),
                ("cancel", {"agent": "b"}),
                ("permissions.allow", {"agent": "b", "request": "q"}),
                ("agents.show", {"agent": "b"}),
                ("agents.create", {"provider": "scripted"}),
                ("agents.import", {"provider": "scripted", "native_id": "n"}),
            ):
                assert (await client.ask(method, **params))["error"]["code"] == "not_served", method


async def test_the_serving_host_sends_those_who_follow_another_hosts_session_there(host, client, place) -> None:
    async with place.host() as other:
        await place.agent(other, "b")
        for method in ("subscribe", "events", "fetch"):
            assert (await client.ask(method, agent="b"))["error"]["code"] == "session_owned"


async def test_an_owner_whose_socket_is_gone_is_an_error(place, monkeypatch) -> None:
    monkeypatch.setattr("greenroom_control._control.SOON", 0.1)
    async with place.host() as other, place.host() as mine:
        await place.agent(other)
        await until(lambda: Path(other.control.endpoint).exists())
        Path(other.control.endpoint).unlink()
        with pytest.raises(HostGone, match="nobody listens at"):
            async with mine.control.owner("a"):
                pass
