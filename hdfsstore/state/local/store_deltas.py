"""Keeps the deltas that this host's processes commit on its local disk, for its other processes.

Spark gives a partition to any free Python worker. A worker that missed a version reads the delta of the worker that
committed it. Where the checkpoint is on a remote filesystem, each such read would be a request.

A delta's name holds its unique id, so the file never changes (checkpoint format version 2):

    content of the checkpoint's file    as it is, compressed
    CRC-32C of these bytes              4 bytes, little-endian

It is written under its name, and gets mode 0400 when it is whole. One without that mode is still being written, or its
writer was killed: nobody reads it. It goes like any other, with the images that follow it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from hdfsstore._cext.crc32c import crc32c
from hdfsstore.state.local.budget import budget
from hdfsstore.state.local.eviction import DELTA, make_room
from hdfsstore.state.local.folder import create_file, names_in, open_file, remove_file, write_all
from hdfsstore.state.local.image_file import SEALED, VersionId
from hdfsstore.state.local.store_folder import StoreFolder

if TYPE_CHECKING:
    from typing_extensions import Buffer

# A larger delta is not kept: to copy it would hold up the commit, and an image follows it soon.
MOST_BYTES = 16 << 20
# So many are kept if no image is made. Who is further behind reads a snapshot.
_MOST_DELTAS = 50
_CRC_BYTES = 4


class StoreDeltas:
    """The local deltas of one store. Threads and forked children may share it."""

    def __init__(self, folder: StoreFolder) -> None:
        self._folder = folder

    def keep(self, version_id: VersionId, pieces: Sequence[Buffer]) -> None:
        """Writes a delta that the checkpoint holds. Without a folder or space there is none."""
        views = [memoryview(piece).cast("B") for piece in pieces]
        checksum = 0
        for view in views:
            checksum = crc32c(view, checksum)
        views.append(memoryview(checksum.to_bytes(_CRC_BYTES, "little")))
        try:
            with self._folder.entered() as (root, folder):
                size = sum(view.nbytes for view in views)
                most = budget(root, self._folder.cache.max_bytes)
                if size <= most:
                    make_room(root, size, most)
                    _write(folder, _name(version_id), views)
                    # Those of much later versions are of a checkpoint that was set back, or deleted and made anew.
                    near = range(version_id[0] - _MOST_DELTAS + 1, version_id[0] + _MOST_DELTAS)
                    drop_deltas(folder, names_in(folder), near)
        except OSError as error:
            self._folder.cache.warn(error)

    def content(self, version_id: VersionId) -> bytes | None:
        """The bytes of a delta, as the checkpoint holds them; None if there is none, or it is not whole."""
        try:
            with self._folder.entered() as (_, folder):
                return _read(folder, _name(version_id))
        except OSError as error:
            self._folder.cache.warn(error)
            return None


class Collected:
    """The pieces of a file that is written, which are kept in memory as they pass. Iterate over it once.

    Attributes:
        pieces: all of them; None if they are larger than what is kept.
    """

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self.pieces: list[bytes] | None = []
        self._pieces = pieces

    def __iter__(self) -> Iterator[bytes]:
        size = 0
        for piece in self._pieces:
            size += len(piece)
            if size > MOST_BYTES:
                self.pieces = None
            elif self.pieces is not None:
                self.pieces.append(piece)
            yield piece


def drop_deltas(folder: int, names: Iterable[str], kept: range) -> None:
    """Deletes the deltas of all but these versions, of those names in a store's folder."""
    for name in names:
        match = DELTA.fullmatch(name)
        if match and int(match[1]) not in kept:
            remove_file(folder, name)


def _name(version_id: VersionId) -> str:
    return f"{version_id[0]}_{version_id[1]}.delta"


def _write(folder: int, name: str, pieces: Iterable[memoryview]) -> None:
    file = create_file(folder, name)
    try:
        for piece in pieces:
            write_all(file, piece)
        os.fchmod(file, SEALED)
    except BaseException:
        remove_file(folder, name)
        raise
    finally:
        os.close(file)


def _read(folder: int, name: str) -> bytes | None:
    try:
        file = open_file(folder, name)
    except FileNotFoundError:
        return None
    try:
        info = os.fstat(file)
        if stat.S_IMODE(info.st_mode) != SEALED:
            return None
        with os.fdopen(file, "rb", closefd=False) as opened:
            content = opened.read()
    finally:
        os.close(file)
    data = memoryview(content)
    if len(data) >= _CRC_BYTES and crc32c(data[:-_CRC_BYTES]).to_bytes(_CRC_BYTES, "little") == data[-_CRC_BYTES:]:
        return content[:-_CRC_BYTES]
    remove_file(folder, name)
    return None
