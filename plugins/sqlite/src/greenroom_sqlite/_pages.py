"""Read a database by its pages, when SQLite cannot find its way to them any more.

Only leaf pages of tables are read: they hold the rows, and each cell says its key. The
layout is that of sqlite.org/fileformat2.html; nothing here is believed that does not
carry a checksum of ours.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypeAlias

Value: TypeAlias = int | float | str | bytes | None
Cell: TypeAlias = tuple[int, tuple[Value, ...]]
"""The integer key of a row, and its columns; the key column itself is None in them."""

_TABLE_LEAF, _INDEX_LEAF = 0x0D, 0x0A
_INTEGERS: Final = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}
"""Serial type -> bytes."""
_FRAME_HEADER, _WAL_HEADER, _FILE_HEADER = 24, 32, 100


class Pages:
    """The newest image of every page: the database, with what its log holds of whole transactions on top."""

    def __init__(self, path: Path, *, page_size: int) -> None:
        with path.open("rb") as file:
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._size = _page_size(content[:100], page_size)
        self._data = memoryview(content)
        self._newer = _committed(Path(f"{path}-wal"), self._size)

    def __len__(self) -> int:
        return max([-(-len(self._data) // self._size), *self._newer])

    def image(self, number: int) -> memoryview:
        """Page `number`, counted from 1; short or empty where the file ends."""
        newer = self._newer.get(number)
        return newer if newer is not None else self._data[(number - 1) * self._size : number * self._size]

    def cells(self) -> Iterator[Cell]:
        """Every row of every leaf page of a table that can be taken apart."""
        for page, offset in self._offsets(_TABLE_LEAF):
            try:
                yield self._cell(page, offset)
            except (IndexError, ValueError, struct.error):  # a damaged cell; its neighbours may be whole
                continue

    def indexed(self) -> Iterator[Value]:
        """The first column of every entry of every leaf page of an index, as far as it stands on the page."""
        for page, offset in self._offsets(_INDEX_LEAF):
            try:
                length, place = _varint(page, offset)
                yield _record(bytes(page[place : place + length]))[0]
            except (IndexError, ValueError, struct.error):
                continue

    def _offsets(self, kind: int) -> Iterator[tuple[memoryview, int]]:
        for number in range(1, len(self) + 1):
            page = self.image(number)
            start = _FILE_HEADER if number == 1 else 0
            if len(page) < self._size or page[start] != kind:
                continue
            for at in range(int.from_bytes(page[start + 3 : start + 5], "big")):
                place = start + 8 + 2 * at
                yield page, int.from_bytes(page[place : place + 2], "big")

    def _cell(self, page: memoryview, offset: int) -> Cell:
        length, offset = _varint(page, offset)
        key, offset = _varint(page, offset)
        return key, _record(self._payload(page, offset, length))

    def _payload(self, page: memoryview, offset: int, length: int) -> bytes:
        """The bytes of a row: on its page, and on overflow pages behind it."""
        largest, smallest = self._size - 35, (self._size - 12) * 32 // 255 - 23
        if length <= largest:
            return bytes(page[offset : offset + length])
        if length > len(self) * self._size:
            raise ValueError("longer than the file")
        local = smallest + (length - smallest) % (self._size - 4)
        local = local if local <= largest else smallest
        parts = [bytes(page[offset : offset + local])]
        missing, number = length - local, int.from_bytes(page[offset + local : offset + local + 4], "big")
        while missing > 0:
            image = self.image(number) if number else b""
            if len(image) < self._size:
                raise ValueError("an overflow page is missing")
            parts.append(bytes(image[4 : 4 + missing]))
            missing, number = missing - (self._size - 4), int.from_bytes(image[:4], "big")
        return b"".join(parts)


def _page_size(data: bytes, default: int) -> int:
    """What the file says, if it can be, else what we create files with."""
    size = int.from_bytes(data[16:18], "big")
    size = 65536 if size == 1 else size
    return size if 512 <= size <= 65536 and size & (size - 1) == 0 else default  # noqa: PLR2004 - SQLite's limits


def _varint(page: memoryview | bytes, at: int) -> tuple[int, int]:
    value = 0
    for _ in range(8):
        byte = page[at]
        at += 1
        value = value << 7 | byte & 0x7F
        if byte < 0x80:  # noqa: PLR2004 - the sign that more follows
            return value, at
    return value << 8 | page[at], at + 1


def _record(data: bytes) -> tuple[Value, ...]:
    size, at = _varint(data, 0)
    kinds: list[int] = []
    while at < size:
        kind, at = _varint(data, at)
        kinds.append(kind)
    values: list[Value] = []
    for kind in kinds:
        value, at = _value(data, at, kind)
        values.append(value)
    return tuple(values)


def _value(data: bytes, at: int, kind: int) -> tuple[Value, int]:
    if kind in _INTEGERS:
        end = at + _INTEGERS[kind]
        return int.from_bytes(_slice(data, at, end), "big", signed=True), end
    if kind == 7:  # noqa: PLR2004 - serial type of a float
        return struct.unpack(">d", _slice(data, at, at + 8))[0], at + 8
    if kind in (0, 8, 9):
        return (None if kind == 0 else kind - 8), at
    if kind < 12:  # noqa: PLR2004 - 10 and 11 are reserved
        raise ValueError("a reserved type")
    end = at + (kind - 12) // 2
    content = _slice(data, at, end)
    return (content.decode() if kind % 2 else content), end


def _slice(data: bytes, start: int, end: int) -> bytes:
    if end > len(data):
        raise ValueError("a value that is longer than its row")
    return data[start:end]


def _committed(path: Path, page_size: int) -> dict[int, memoryview]:
    """The pages in the write-ahead log, up to its last whole transaction."""
    data = memoryview(path.read_bytes()) if path.exists() else memoryview(b"")
    if len(data) < _WAL_HEADER or int.from_bytes(data[8:12], "big") != page_size:
        return {}
    order = ">" if data[3] & 1 else "<"
    check = _sum(data[:24], (0, 0), order)
    if check != struct.unpack(">II", data[24:32]):
        return {}
    pages: dict[int, memoryview] = {}
    pending: dict[int, memoryview] = {}
    step = _FRAME_HEADER + page_size
    for at in range(_WAL_HEADER, len(data) - step + 1, step):
        frame = data[at : at + step]
        number, commit, *salts_and_sums = struct.unpack(">IIIIII", frame[:24])
        check = _sum(frame[24:], _sum(frame[:8], check, order), order)
        if frame[8:16] != data[16:24] or check != tuple(salts_and_sums[2:]):
            break
        pending[number] = frame[24:]
        if commit:
            pages.update(pending)
            pending.clear()
    return pages


def _sum(data: memoryview, start: tuple[int, int], order: str) -> tuple[int, int]:
    """SQLite's own checksum of its log (fileformat2, section 4.2)."""
    one, two = start
    words = iter(struct.unpack(f"{order}{len(data) // 4}I", data))
    for first in words:
        one = (one + first + two) & 0xFFFFFFFF
        two = (two + next(words) + one) & 0xFFFFFFFF
    return one, two
