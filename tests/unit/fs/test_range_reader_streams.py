"""Files of which one request brings what follows the first bytes, because many are read at the same time."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdfsstore.errors import StateStoreError
from hdfsstore.fs import ahead
from hdfsstore.fs.range_reader import RangeReader
from tests.support.crowd import crowd

CONTENT = random.Random(3).randbytes(10_000)


class Storage:
    """One file. Each of its streams fails once it is past `fails_at`, for as long as that is set."""

    def __init__(self, content: bytes = CONTENT) -> None:
        self.content = content
        self.ranges: list[int] = []
        self.streams: list[int] = []
        self.open_streams = 0
        self.fails_at: int | None = None
        self.short = 0

    def open(self, first: int = 1000) -> RangeReader:
        content = self.content
        return RangeReader(
            content[:first], len(content), self.read_range, path="/f", block=1000, open_stream=self.open_stream
        )

    def read_range(self, offset: int, size: int) -> bytes:
        self.ranges.append(offset)
        return self.content[offset : offset + size]

    def open_stream(self, offset: int) -> Stream:
        self.streams.append(offset)
        self.open_streams += 1
        return Stream(self, offset)


class Stream:
    def __init__(self, storage: Storage, offset: int) -> None:
        self._storage = storage
        self._at = offset
        self._open = True

    def readinto(self, buffer: memoryview, /) -> int:
        assert self._open
        piece = self._storage.content[self._at : self._at + len(buffer)]
        self._at += len(piece)
        buffer[: len(piece)] = piece
        fails_at = self._storage.fails_at
        if fails_at is not None and self._at > fails_at:
            raise StateStoreError("reset", "/f")
        return len(piece) - self._storage.short

    def close(self) -> None:
        self._storage.open_streams -= self._open
        self._open = False


@pytest.fixture
def many() -> Iterator[None]:
    with crowd():
        yield


def read_all(reader: RangeReader, size: int = 700) -> bytes:
    content = bytearray()
    buffer = bytearray(size)
    while n := reader.readinto(buffer):
        content += buffer[:n]
        assert n == size or reader.readinto(bytearray(1)) == 0
    return bytes(content)


@given(size=st.integers(0, 5000), first=st.integers(0, 6000), read=st.integers(50, 4000))
def test_one_stream_brings_all_that_follows_and_again_after_rewind(size: int, first: int, read: int) -> None:
    storage = Storage(CONTENT[:size])
    with crowd():
        reader = storage.open(first)
        for _ in range(2):
            storage.streams.clear()
            assert read_all(reader, read) == storage.content
            assert storage.streams == [first] * (first < size)
            reader.rewind()
        assert not storage.ranges
        reader.close()
    assert storage.open_streams == 0


@given(crowded=st.lists(st.booleans(), max_size=30), read=st.integers(50, 900))
def test_every_byte_is_read_whoever_else_comes_and_goes(crowded: list[bool], read: int) -> None:
    storage = Storage()
    reader = storage.open()
    content = bytearray()
    buffer = bytearray(read)
    for many in crowded:
        if many:
            with crowd():
                n = reader.readinto(buffer)
        else:
            n = reader.readinto(buffer)
        content += buffer[:n]
    assert content + read_all(reader) == CONTENT
    reader.close()
    assert storage.open_streams == 0


@pytest.mark.usefixtures("many")
def test_after_an_error_a_new_stream_goes_on_where_the_reader_is() -> None:
    storage = Storage()
    reader = storage.open()
    assert reader.readinto(bytearray(3000)) == 3000
    storage.fails_at = 3500
    with pytest.raises(StateStoreError, match="reset"):
        reader.readinto(bytearray(1000))
    assert storage.open_streams == 0
    storage.fails_at = None
    assert read_all(reader) == CONTENT[3000:]
    assert storage.streams == [1000, 3000]


@pytest.mark.usefixtures("many")
def test_a_stream_that_ends_early_is_an_error() -> None:
    storage = Storage()
    reader = storage.open()
    storage.short = 1
    with pytest.raises(StateStoreError, match=r"/f, byte 1000: .* answered 999 bytes where 1000 were"):
        reader.readinto(bytearray(2000))


@pytest.mark.usefixtures("many")
@pytest.mark.parametrize("how", ["close", "rewind"])
def test_a_stream_that_is_not_wanted_any_more_is_closed(how: str) -> None:
    storage = Storage()
    reader = storage.open()
    reader.readinto(bytearray(2000))
    assert storage.open_streams == 1
    getattr(reader, how)()
    getattr(reader, how)()
    assert storage.open_streams == 0


def test_a_stream_that_is_there_already_is_read_on_without_others() -> None:
    storage = Storage()
    reader = RangeReader(
        CONTENT[:1000],
        len(CONTENT),
        storage.read_range,
        path="/f",
        open_stream=storage.open_stream,
        stream=storage.open_stream(1000),
    )
    assert read_all(reader) == CONTENT
    assert storage.streams == [1000]
    assert not storage.ranges


@pytest.mark.parametrize(
    ("readers", "share"), [(0, 15), (1, 15), (2, 7), (4, 3), (5, 2), (6, 1), (8, 1), (9, 0), (16, 0), (100, 0)]
)
def test_readers_share_what_may_be_ahead(readers: int, share: int) -> None:
    surroundings = [ahead.reading() for _ in range(readers)]
    for each in surroundings:
        each.__enter__()
    assert ahead.share() == share
    for each in surroundings:
        each.__exit__(None, None, None)
    assert ahead.share() == ahead._MOST - 1


@pytest.mark.usefixtures("many")
def test_a_forked_child_reads_alone() -> None:
    child = os.fork()
    if child == 0:
        os._exit(0 if ahead.share() == ahead._MOST - 1 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
