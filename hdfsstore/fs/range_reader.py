"""Reads a file from its start to its end by requests for ranges. Some are on the way while earlier ones are read.

memory     for each reader the first range, and the one that is being read. In the process _MOST_AHEAD ranges more,
           whoever has asked for them
threads    the reader's own. It fetches what is not yet on the way itself, so a reader never waits for another one.
           In the process one for each range that is ahead of its reader
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from hdfsstore.errors import StateStoreError
from hdfsstore.fs.threads import Job

if TYPE_CHECKING:
    from typing_extensions import Buffer

BLOCK = 8 << 20
_MOST_AHEAD = 16
# A signal that arrives just before a wait does not end it, so waits are short.
_INTERRUPTIBLE_S = 1.0


class RangeReader:
    """An OpenFile. One thread at a time may use it, in the process that has opened it.

    Args:
        first: the file's first bytes, which came with the answer that told its size; maybe all of it, or nothing.
        size: of the file in bytes.
        read_range: returns the bytes from an offset on, by offset and number; exactly so many, and of the same version
            of the file, or it raises an error (FileChangedError). Other threads call it too, several at once. It must
            end by itself (Calls).
        path: of the file, for messages.
        block: the bytes of a range. The last one is shorter.
        parallel: so many ranges may be ahead of the one that is being read.
    """

    def __init__(
        self,
        first: Buffer,
        size: int,
        read_range: Callable[[int, int], Buffer],
        *,
        path: str,
        block: int = BLOCK,
        parallel: int = 4,
    ) -> None:
        self._ahead: deque[_Fetch] = deque()  # what follows _next, without gaps
        self._pid = os.getpid()
        self._first = memoryview(first).cast("B")
        self._read_range = read_range
        self._path = path
        self._block = block
        self._parallel = parallel
        self._current = self._first
        self._next = len(self._first)  # where the range after the current one begins
        self._closed = False
        self.size = size
        if self._next > size:
            raise _unfit(path, 0, size, self._next)

    def readinto(self, buffer: bytearray | memoryview, /) -> int:
        """Fills the buffer with the next bytes. Returns their number, which is smaller only at the file's end.

        Raises:
            FileChangedError: the file was replaced. It has to be opened anew.
            StateStoreError: the storage fails, or the process is a fork of the one that has opened the file.
        """
        if os.getpid() != self._pid:
            raise StateStoreError(
                "the file was opened before this process was forked", self._path, remedy="Open it after the fork"
            )
        if self._closed:
            raise ValueError(f"{self._path} is closed")
        self._fetch_ahead()
        view = memoryview(buffer).cast("B")
        filled = 0
        while filled < len(view) and (self._current or self._next < self.size):
            if not self._current:
                self._current = self._take()
            piece = self._current[: len(view) - filled]
            view[filled : filled + len(piece)] = piece
            filled += len(piece)
            self._current = self._current[len(piece) :]
        return filled

    def rewind(self) -> None:
        """Goes back to the start."""
        self._drop_ahead()
        self._current = self._first
        self._next = len(self._first)

    def close(self) -> None:
        """Lets go of what is ahead. Requests that are on the way end by themselves; they are not waited for."""
        self._closed = True
        self._drop_ahead()
        self._first = self._current = memoryview(b"")

    def __del__(self) -> None:
        self._drop_ahead()

    def _take(self) -> memoryview:
        """The range after the current one, which is used up."""
        offset = self._next
        size = min(self._block, self.size - offset)
        fetch = self._ahead.popleft() if self._ahead else None
        self._next = offset + size
        try:
            self._fetch_ahead()
            content = memoryview(fetch.content() if fetch else self._read_range(offset, size)).cast("B")
            if len(content) != size:
                raise _unfit(self._path, offset, size, len(content))
        except BaseException:
            self._drop_ahead()
            self._next = offset
            raise
        finally:
            if fetch:
                fetch.drop()
        return content

    def _fetch_ahead(self) -> None:
        offset = self._next + sum(fetch.size for fetch in self._ahead)
        while len(self._ahead) < self._parallel and offset < self.size:
            fetch = _Fetch.begin(self._read_range, offset, min(self._block, self.size - offset))
            if fetch is None:  # fetched when it is its turn
                return
            self._ahead.append(fetch)
            offset += fetch.size

    def _drop_ahead(self) -> None:
        ahead, self._ahead = self._ahead, deque()
        if os.getpid() == self._pid:
            for fetch in ahead:
                fetch.drop()


class _Fetch:
    """A range on its way. It has one of the process's places for such ranges until it is dropped and has ended."""

    def __init__(self, job: Job[Buffer], size: int) -> None:
        self.size = size
        self._job = job

    @classmethod
    def begin(cls, read_range: Callable[[int, int], Buffer], offset: int, size: int) -> _Fetch | None:
        """None: all places are taken, or the system has no further thread."""
        if not _places.acquire(blocking=False):
            return None
        job = Job(partial(read_range, offset, size))
        try:
            job.start()
        except BaseException as error:
            _places.release()
            if isinstance(error, RuntimeError):
                return None
            raise
        return cls(job, size)

    def content(self) -> Buffer:
        """Waits for the bytes, or raises the error of their request."""
        while not self._job.wait(_INTERRUPTIBLE_S):
            pass
        return self._job.result()

    def drop(self) -> None:
        """The bytes are taken, or not wanted."""
        if not self._job.abandon(_places.release):
            _places.release()


_places = threading.BoundedSemaphore(_MOST_AHEAD)


def _after_fork() -> None:
    global _places
    _places = threading.BoundedSemaphore(_MOST_AHEAD)  # the parent's ranges are not on their way here


os.register_at_fork(after_in_child=_after_fork)


def _unfit(path: str, offset: int, size: int, got: int) -> StateStoreError:
    return StateStoreError(
        f"the storage has answered {got} bytes where {size} were asked for",
        path,
        offset,
        remedy="Try again. If it stays so, something between this process and the storage changes answers",
    )
