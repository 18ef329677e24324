"""Reads a file from its start to its end by requests for ranges. Some are on the way while earlier ones are read.

Where so many files are read at the same time that none may have ranges ahead (ahead.share), one request brings the rest
of a file, if the storage can do that: it goes from the connection to whoever reads, with the fewest copies.

memory     for each reader the first range, and the one that is being read. In the process ahead._MOST ranges more,
           whoever has asked for them
threads    the reader's own. It fetches what is not yet on the way itself, so a reader never waits for another one.
           In the process one for each range that is ahead of its reader
"""

from __future__ import annotations

import _thread
import os
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Protocol

from hdfsstore.errors import StateStoreError
from hdfsstore.fs.ahead import Ahead, share

if TYPE_CHECKING:
    from typing_extensions import Buffer

BLOCK = 8 << 20


class Stream(Protocol):
    """The bytes of a file from somewhere to its end, for one thread."""

    def readinto(self, buffer: memoryview, /) -> int:
        """Fills the buffer with the next bytes. Returns their number, which is smaller only at the file's end."""

    def close(self) -> None:
        """Ends its request. It may be closed more than once."""


class RangeReader:
    """An OpenFile, for the process that has opened it.

    Args:
        first: the file's first bytes, which came with the answer that told its size; maybe all of it, or nothing.
        size: of the file in bytes.
        read_range: returns the bytes from an offset on, by offset and number; exactly so many, and of the same version
            of the file, or it raises an error (FileChangedError). Other threads call it too, several at once. It must
            end by itself (Calls).
        path: of the file, for messages.
        block: the bytes of a range. The last one is shorter.
        parallel: so many ranges may be ahead of the one that is being read.
        open_stream: opens the bytes from an offset on; None: there are ranges alone.
        stream: what follows the first bytes, if it is on the way already.
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
        open_stream: Callable[[int], Stream] | None = None,
        stream: Stream | None = None,
    ) -> None:
        self._ahead: deque[tuple[int, Ahead[Buffer]]] = deque()  # sizes of what follows _next
        self._pid = os.getpid()
        self._first = memoryview(first).cast("B")
        self._read_range = read_range
        self._path = path
        self._block = block
        self._parallel = parallel
        self._open_stream = open_stream
        self._stream = stream  # of all that follows the current range
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
        self._check_usable()
        self._fetch_ahead()
        view = memoryview(buffer).cast("B")
        filled = 0
        while filled < len(view) and (self._current or self._next < self.size):
            if not self._current and self._streams():
                filled += self._from_stream(view[filled:])
                continue
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
        self._end_stream()
        self._current = self._first
        self._next = len(self._first)

    def read_at(self, offset: int, size: int) -> Buffer:
        """Bytes of the file, as OpenFile says. Raises what `readinto` raises."""
        self._check_usable()
        first = self._first
        if offset + size <= len(first):
            return first[offset : offset + size]
        content = memoryview(self._read_range(offset, size)).cast("B")
        if len(content) != size:
            raise _unfit(self._path, offset, size, len(content))
        return content

    def close(self) -> None:
        """Lets go of what is ahead. Requests that are on the way end by themselves; they are not waited for."""
        self._closed = True
        self._drop_ahead()
        self._end_stream()
        self._first = self._current = memoryview(b"")

    def __del__(self) -> None:
        # On a thread: the lock of a call, or of the places, may be held where the garbage is collected.
        if self._ahead and os.getpid() == self._pid:
            with suppress(RuntimeError):  # the interpreter is about to end
                _thread.start_new_thread(_drop, (self._ahead,))

    def _check_usable(self) -> None:
        if os.getpid() != self._pid:
            raise StateStoreError(
                "the file was opened before this process was forked", self._path, remedy="Open it after the fork"
            )
        if self._closed:
            raise ValueError(f"{self._path} is closed")

    def _streams(self) -> bool:
        """Whether a stream brings what follows. It begins where nothing is ahead, nor may be."""
        if self._stream is None and self._open_stream is not None and not self._ahead and share() == 0:
            self._stream = self._open_stream(self._next)
        return self._stream is not None

    def _from_stream(self, view: memoryview) -> int:
        assert self._stream is not None
        wanted = min(len(view), self.size - self._next)
        try:
            got = self._stream.readinto(view[:wanted])
            if got != wanted:
                raise _unfit(self._path, self._next, wanted, got)
        except BaseException:
            self._end_stream()
            raise
        self._next += got
        return got

    def _end_stream(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()

    def _take(self) -> memoryview:
        """The range after the current one, which is used up."""
        offset = self._next
        size = min(self._block, self.size - offset)
        _, ahead = self._ahead.popleft() if self._ahead else (size, None)
        self._next = offset + size
        try:
            self._fetch_ahead()
        except BaseException:
            if ahead is not None:
                ahead.drop()
            raise
        try:
            content = memoryview(ahead.take() if ahead else self._read_range(offset, size)).cast("B")
            if len(content) != size:
                raise _unfit(self._path, offset, size, len(content))
        except BaseException:
            self._drop_ahead()
            self._next = offset
            raise
        return content

    def _fetch_ahead(self) -> None:
        if self._stream is not None:
            return
        offset = self._next + sum(size for size, _ in self._ahead)
        most = min(self._parallel, share())
        while len(self._ahead) < most and offset < self.size:
            size = min(self._block, self.size - offset)
            begun = Ahead.begin(partial(self._read_range, offset, size))
            if begun is None:
                return
            self._ahead.append((size, begun))
            offset += size

    def _drop_ahead(self) -> None:
        dropped, self._ahead = self._ahead, deque()
        if os.getpid() == self._pid:
            _drop(dropped)


def _drop(dropped: Iterable[tuple[int, Ahead[Buffer]]]) -> None:
    for _, ahead in dropped:
        ahead.drop()


def _unfit(path: str, offset: int, size: int, got: int) -> StateStoreError:
    return StateStoreError(
        f"the storage has answered {got} bytes where {size} were asked for",
        path,
        offset,
        remedy="Try again. If it stays so, something between this process and the storage changes answers",
    )
