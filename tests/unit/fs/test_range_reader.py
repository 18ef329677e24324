"""Files that are read by ranges: every byte once, ahead of the reader, in bounded memory, whatever is answered."""

from __future__ import annotations

import gc
import os
import random
import signal
import threading
from collections.abc import Iterator
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdfsstore.errors import FileChangedError, StateStoreError
from hdfsstore.fs import ahead as module
from hdfsstore.fs.range_reader import RangeReader
from hdfsstore.fs.reading import Input
from hdfsstore.fs.request_metrics import RequestMetrics, counted_in
from tests.support.waiting import wait_until

CONTENT = random.Random(1).randbytes(10_000)


class Storage:
    """One file. Its requests wait while `thaw` is not set."""

    def __init__(self, content: bytes = CONTENT) -> None:
        self.content = content
        self.asked: list[tuple[int, int]] = []
        self.on_the_way = self.most_on_the_way = 0
        self.thaw = threading.Event()
        self.thaw.set()
        self._lock = threading.Lock()

    def read_range(self, offset: int, size: int) -> bytes:
        with self._lock:
            self.asked.append((offset, size))
            self.on_the_way += 1
            self.most_on_the_way = max(self.most_on_the_way, self.on_the_way)
        try:
            assert self.thaw.wait(60)
            return self.content[offset : offset + size]
        finally:
            with self._lock:
                self.on_the_way -= 1

    def open(self, first: int = 1000, block: int = 1000, parallel: int = 4) -> RangeReader:
        return RangeReader(
            self.content[:first], len(self.content), self.read_range, path="/f", block=block, parallel=parallel
        )


@pytest.fixture(autouse=True)
def no_place_is_lost() -> Iterator[None]:
    yield
    gc.collect()
    wait_until(lambda: free_places() == module._MOST)


def free_places() -> int:
    taken = 0
    while module._places.acquire(blocking=False):
        taken += 1
    for _ in range(taken):
        module._places.release()
    return taken


def read_all(reader: RangeReader, size: int = 700) -> bytes:
    content = bytearray()
    buffer = bytearray(size)
    while n := reader.readinto(buffer):
        content += buffer[:n]
        assert n == size or reader.readinto(bytearray(1)) == 0
    return bytes(content)


@given(
    size=st.integers(0, 5000),
    first=st.integers(0, 6000),
    block=st.integers(200, 3000),
    parallel=st.integers(1, 8),
    read=st.integers(1, 4000),
)
def test_every_byte_is_read_once_and_again_after_rewind(
    size: int, first: int, block: int, parallel: int, read: int
) -> None:
    storage = Storage(CONTENT[:size])
    reader = storage.open(first, block, parallel)
    assert reader.size == size
    for _ in range(2):
        storage.asked.clear()
        assert read_all(reader, max(read, 50)) == storage.content
        asked = sorted(storage.asked)
        assert asked == [(at, min(block, size - at)) for at in range(min(first, size), size, block)]
        reader.rewind()
    reader.close()


def test_a_file_that_came_whole_needs_no_request() -> None:
    storage = Storage()
    reader = storage.open(first=len(CONTENT))
    assert read_all(reader) == CONTENT
    assert not storage.asked


def test_an_empty_file_has_no_bytes() -> None:
    storage = Storage(b"")
    assert storage.open().readinto(bytearray(5)) == 0
    assert not storage.asked


def test_ranges_are_asked_for_before_they_are_needed() -> None:
    storage = Storage()
    storage.thaw.clear()
    reader = storage.open(parallel=3)
    assert not storage.asked  # whoever looks at nothing but the size causes no request
    assert reader.readinto(bytearray(10)) == 10
    wait_until(lambda: storage.on_the_way == 3)
    assert sorted(storage.asked) == [(1000, 1000), (2000, 1000), (3000, 1000)]
    storage.thaw.set()
    assert CONTENT[:10] + read_all(reader) == CONTENT
    assert storage.most_on_the_way <= 4


def test_ranges_can_be_asked_for_before_the_first_read() -> None:
    storage = Storage()
    storage.thaw.clear()
    with closing(Input("/f", storage.open(parallel=3), [])) as source:
        source.fetch_ahead()
        wait_until(lambda: storage.on_the_way == 3)
        storage.thaw.set()
        content = bytearray(len(CONTENT))
        assert source.readinto(content) == len(content)
        assert content == CONTENT
        assert len(storage.asked) == len(set(storage.asked))


def test_ranges_ahead_are_bounded_over_all_readers_and_none_waits_for_another() -> None:
    storage = Storage()
    held = [storage.open(parallel=8) for _ in range(8)]
    storage.thaw.clear()
    for reader in held:
        reader.readinto(bytearray(10))
    wait_until(lambda: storage.on_the_way == module._MOST)
    assert free_places() == 0
    storage.thaw.set()
    # The first two have all places, and do not read on. The others read all the same.
    for reader in held[2:]:
        assert CONTENT[:10] + read_all(reader) == CONTENT
    for reader in held[:2]:
        assert CONTENT[:10] + read_all(reader) == CONTENT
    assert storage.most_on_the_way <= module._MOST + 1


def test_many_readers_read_side_by_side() -> None:
    storage = Storage(random.Random(2).randbytes(300_000))
    wrong: list[int] = []

    def work(n: int) -> None:
        reader = storage.open(block=4000 + n, parallel=6)
        if read_all(reader, 3000) != storage.content:
            wrong.append(n)
        reader.close()

    threads = [threading.Thread(target=work, args=[n]) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert storage.most_on_the_way <= module._MOST + len(threads)


@pytest.mark.parametrize("how", ["close", "rewind", "garbage"])
def test_what_is_on_the_way_is_not_waited_for(how: str) -> None:
    storage = Storage()
    storage.thaw.clear()
    reader = storage.open()
    reader.readinto(bytearray(10))
    wait_until(lambda: storage.on_the_way == 4)
    if how == "garbage":
        del reader
    else:
        getattr(reader, how)()
        getattr(reader, how)()
    assert free_places() == module._MOST - 4  # they still hold memory
    storage.thaw.set()
    wait_until(lambda: free_places() == module._MOST)


def test_a_closed_reader_is_not_read() -> None:
    reader = Storage().open()
    reader.close()
    with pytest.raises(ValueError, match="/f is closed"):
        reader.readinto(bytearray(1))


@pytest.mark.parametrize(
    "error", [FileChangedError("replaced", "/f"), StateStoreError("reset", "/f"), FileNotFoundError()]
)
@pytest.mark.parametrize("parallel", [1, 4])
def test_an_error_arrives_at_the_reader_and_can_be_tried_again(error: Exception, parallel: int) -> None:
    storage = Storage()
    errors = [error]

    def read_range(offset: int, size: int) -> bytes:
        if offset == 3000 and errors:
            raise errors.pop()
        return storage.read_range(offset, size)

    reader = RangeReader(CONTENT[:1000], len(CONTENT), read_range, path="/f", block=1000, parallel=parallel)
    assert reader.readinto(bytearray(3000)) == 3000
    with pytest.raises(type(error)) as raised:
        reader.readinto(bytearray(10))
    assert raised.value is error
    assert read_all(reader) == CONTENT[3000:]
    reader.rewind()
    assert read_all(reader) == CONTENT


@pytest.mark.parametrize("places", [True, False])
@pytest.mark.parametrize("change", [-1, 1, -1000])
def test_an_answer_of_another_length_is_an_error(change: int, places: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_places", threading.BoundedSemaphore(module._MOST))
    if not places:
        for _ in range(module._MOST):
            module._places.acquire()

    def read_range(offset: int, size: int) -> bytes:
        return bytes(size + change * (offset == 2000))

    reader = RangeReader(b"", 5000, read_range, path="/f", block=1000)
    assert reader.readinto(bytearray(2000)) == 2000
    with pytest.raises(StateStoreError, match=rf"/f, byte 2000: .* answered {1000 + change} bytes where 1000 were"):
        reader.readinto(bytearray(10))
    reader.close()
    if not places:
        for _ in range(module._MOST):
            module._places.release()


def test_a_first_answer_longer_than_the_file_is_an_error() -> None:
    with pytest.raises(StateStoreError, match=r"/f, byte 0: .* answered 11 bytes where 10 were"):
        RangeReader(bytes(11), 10, Storage().read_range, path="/f")


def test_offsets_may_be_larger_than_32_bits() -> None:
    block = bytes(1 << 26)
    size = (1 << 32) + 3
    reader = RangeReader(b"", size, lambda _, size: memoryview(block)[:size], path="/f", block=1 << 26)
    buffer = bytearray(1 << 26)
    read = 0
    while n := reader.readinto(buffer):
        read += n
    assert read == size


def test_without_a_further_thread_the_reader_asks_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("hdfsstore.fs.threads._Thread", none)
    monkeypatch.setattr("hdfsstore.fs.threads._idle", [])
    assert read_all(Storage().open()) == CONTENT


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_ends_the_wait() -> None:
    storage = Storage()
    reader = storage.open()
    storage.thaw.clear()
    main = threading.get_ident()

    def interrupt() -> None:
        wait_until(lambda: storage.on_the_way >= 4)
        signal.pthread_kill(main, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        read_all(reader)
    thread.join()
    storage.thaw.set()
    reader.rewind()
    assert read_all(reader) == CONTENT


def test_requests_are_counted_for_the_reader() -> None:
    of_manager, of_store = RequestMetrics(), RequestMetrics()
    storage = Storage()

    def read_range(offset: int, size: int) -> bytes:
        of_manager.request("GET", 0)
        return storage.read_range(offset, size)

    with counted_in(of_store):
        read_all(RangeReader(b"", len(CONTENT), read_range, path="/f", block=1000))
    assert of_store.snapshot().requests == {"GET": 10}


def test_a_forked_child_is_refused_the_open_file_and_reads_one_of_its_own() -> None:
    storage = Storage()
    reader = storage.open()
    storage.thaw.clear()
    reader.readinto(bytearray(10))
    wait_until(lambda: storage.on_the_way == 4)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            try:
                reader.readinto(bytearray(10))
            except StateStoreError as error:
                refused = "before this process was forked" in str(error)
            reader.close()
            own = Storage()
            status = 0 if refused and read_all(own.open()) == CONTENT and free_places() == module._MOST else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    storage.thaw.set()
    assert CONTENT[:10] + read_all(reader) == CONTENT


@pytest.mark.parametrize("held", ["of a call", "of the places"])
def test_a_reader_that_is_garbage_may_be_collected_wherever_a_lock_is_held(held: str) -> None:
    """Garbage is collected in any thread and at any time: by one that ends a call ahead, or takes a place for one."""
    storage = Storage()
    storage.thaw.clear()
    reader = storage.open()
    reader.readinto(bytearray(1))
    lock = reader._ahead[0][1]._job._lock if held == "of a call" else module._places._cond  # type: ignore[attr-defined]
    reader.garbage = reader  # type: ignore[attr-defined]
    del reader
    collected = threading.Event()

    def collect() -> None:
        with lock:
            gc.collect()
        collected.set()

    threading.Thread(target=collect, daemon=True).start()
    assert collected.wait(10)
    storage.thaw.set()
