"""What the endpoint does with lines, good and bad."""

from __future__ import annotations

import json

import anyio
import pytest

from greenroom_control._wire import MAX_LINE

from .rig import until, wire

pytestmark = pytest.mark.anyio


async def test_hello_says_who_answers(host, place) -> None:
    async with wire(host.control.endpoint, hello=False) as client:
        said = await client.hello()
    assert (said["protocol"], said["serving"], said["sessions"]) == (1, True, [])
    assert said["data_directory"] == str(place.folder)


async def test_nothing_is_done_before_hello(host) -> None:
    async with wire(host.control.endpoint, hello=False) as client:
        assert (await client.ask("list"))["error"]["code"] == "hello_first"
        await client.hello()
        assert (await client.ask("list"))["result"] == {"agents": []}


async def test_another_version_is_refused_and_the_connection_closed(host) -> None:
    async with wire(host.control.endpoint, hello=False) as client:
        refused = await client.ask("hello", protocol=2)
        assert (refused["id"], refused["error"]["code"]) == (1, "protocol")
        assert "speaks version 1" in refused["error"]["message"]
        assert await client.closed()


@pytest.mark.parametrize(
    "line",
    [
        b"nonsense",
        b"\xff\xfe",
        b"[]",
        b"null",
        b'{"id":1}',
        b'{"method":"list"}',
        b'{"id":1.5,"method":"list"}',
        b'{"id":null,"method":"list"}',
        b'{"id":1,"method":7}',
        b'{"id":1,"method":"list","params":{}',
        b"[" * 5_000,
        b'{"id":1,"method":"list","params":' + b"[" * 2_000 + b"]" * 2_000 + b"}",
    ],
)
async def test_a_line_that_is_no_request_is_answered_and_the_next_one_counts(client, line) -> None:
    await client.raw(line + b"\n")
    refused = await client.hear()
    assert (refused["id"], refused["error"]["code"]) == (None, "malformed")
    assert "result" in await client.ask("list")


@pytest.mark.parametrize("params", ['"text"', "[]", '{"agents":1}', '{"archived":"yes"}'])
async def test_wrong_parameters_are_named(client, params) -> None:
    await client.raw(b'{"id":5,"method":"list","params":%b}\n' % params.encode())
    refused = await client.hear()
    assert (refused["id"], refused["error"]["code"]) == (5, "invalid_params")
    assert "result" in await client.ask("list")


async def test_an_unknown_method_is_refused_with_those_that_are_close(client) -> None:
    refused = await client.ask("agents.archiv", agent="a")
    assert refused["error"]["code"] == "unknown_method"
    assert "agents.archive" in refused["error"]["hint"]


async def test_empty_lines_mean_nothing(client) -> None:
    await client.raw(b"\n  \n\r\n")
    assert "result" in await client.ask("list")


async def test_a_request_in_pieces_is_one_request(client) -> None:
    for byte in b'{"id":"x","method":"list"}\n':
        await client.raw(bytes([byte]))
    assert (await client.hear())["id"] == "x"


async def test_many_requests_in_one_piece_are_all_answered(client) -> None:
    await client.raw(b"".join(b'{"id":%d,"method":"list"}\n' % number for number in range(50)))
    assert sorted([(await client.hear())["id"] for _ in range(50)]) == list(range(50))


async def test_half_a_line_and_a_hang_up_end_the_connection_alone(host, client) -> None:
    async with wire(host.control.endpoint) as other:
        await other.raw(b'{"id":1,"method":"li')
    assert "result" in await client.ask("list")


async def test_a_line_of_100_megabytes_is_skipped_without_being_kept(client) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(client.raw, b'{"id":1,"method":"' + b"x" * 100_000_000 + b'"}\n')
        refused = await client.hear()
    assert (refused["id"], refused["error"]["code"]) == (None, "line_too_long")
    assert f"{MAX_LINE >> 20} MiB" in refused["error"]["message"]
    assert "result" in await client.ask("list")


async def test_an_id_that_is_in_use_is_refused_and_the_first_one_goes_on(host, client, place) -> None:
    await place.agent(host)
    assert "result" in await client.ask("events", 7, agent="a", seq=10_000)
    assert (await client.ask("list", 7))["error"]["code"] == "id_in_use"
    both = [await client.ask("unsubscribe", 8, id=7), await client.hear()]
    assert {"id": 7, "end": {}} in both
    assert {"id": 8, "result": {"ended": True}} in both
    assert (await client.ask("unsubscribe", 9, id=7))["result"] == {"ended": False}


async def test_more_than_256_open_requests_are_refused(host, client, place) -> None:
    await place.agent(host)
    for number in range(256):
        await client.say(id=number, method="events", params={"agent": "a", "seq": 10_000})
        assert "result" in await client.hear()
    assert (await client.ask("list", 999))["error"]["code"] == "too_many"


async def test_a_client_that_never_reads_hinders_nobody_and_costs_a_bound(host, client, place) -> None:
    handle = await place.agent(host)
    for _ in range(30):
        handle.agent.inject("x" * 60_000)
    async with wire(host.control.endpoint) as deaf:
        for number in range(100):
            await deaf.say(id=number, method="events", params={"agent": "a"})
        assert "result" in await client.ask("list")
        await until(lambda: len(host.control.connections) == 2)
        assert max(one.unsent for one in host.control.connections) < 2 << 20
    await until(lambda: len(host.control.connections) == 1)


async def test_ids_may_be_texts_and_come_back_as_they_were(client) -> None:
    name = 'a"b\\ü'
    await client.raw(json.dumps({"id": name, "method": "list"}).encode() + b"\n")
    assert (await client.hear())["id"] == name
