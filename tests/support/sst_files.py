"""Writes small SST files by hand, so that a test decides about each byte: format 5, without compression."""

from __future__ import annotations

from collections.abc import Sequence

from hdfsstore._cext.sst import footer_checksum

XXH3 = 4
MAX_SEQUENCE = (1 << 56) - 1
PUT, DELETION, MERGE, RANGE_DELETION = 1, 0, 2, 15

Entry = tuple[bytes, bytes]


def varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*found, number))


def internal(key: bytes, sequence: int = 1, kind: int = PUT) -> bytes:
    return key + (sequence << 8 | kind).to_bytes(8, "little")


def block_of(entries: Sequence[Entry], restart_every: int = 1) -> bytes:
    """A block in which every so many entries one is a restart point; the others share bytes with those before."""
    data, restarts, last = b"", [], b""
    for i, (key, value) in enumerate(entries):
        shared = 0
        if i % restart_every == 0:
            restarts.append(len(data))
        else:
            shared = _shared(last, key)
        data += varint(shared) + varint(len(key) - shared) + varint(len(value)) + key[shared:] + value
        last = key
    return closed(data, restarts)


def closed(entries: bytes, restarts: Sequence[int] = (0,)) -> bytes:
    """Entries with restart points behind them."""
    return entries + b"".join(at.to_bytes(4, "little") for at in (*restarts, len(restarts)))


def _shared(a: bytes, b: bytes) -> int:
    return next((at for at, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def delta_index_of(index: Sequence[tuple[bytes, int, int]], restart_every: int = 16) -> bytes:
    """An index block of (key, offset, size), in which sizes are those of values that share bytes: what a size adds."""
    data, restarts, last, before = b"", [], b"", 0
    for i, (key, offset, size) in enumerate(index):
        shared = 0
        if i % restart_every == 0:
            restarts.append(len(data))
        else:
            shared = _shared(last, key)
        more = size - before
        value = varint(2 * more if more >= 0 else -2 * more - 1) if shared else varint(offset) + varint(size)
        data += varint(shared) + varint(len(key) - shared) + key[shared:] + value
        last, before = key, size
    return closed(data, restarts)


class File:
    """An SST file that grows.

    Args:
        start: so many bytes are in front of the content.
    """

    def __init__(self, checksum: int = XXH3, start: int = 0) -> None:
        self.content = b""
        self._checksum = checksum
        self._start = start

    def add(self, contents: bytes, compression: int = 0) -> bytes:
        """Adds a block, and returns its handle."""
        handle = varint(self._start + len(self.content)) + varint(len(contents))
        whole = contents + bytes((compression,))
        self.content += whole + footer_checksum(whole, self._checksum, 0, 0).to_bytes(4, "little")
        return handle

    def finish(
        self,
        index: bytes,
        deletions: Sequence[Entry] = (),
        properties: Sequence[Entry] = ((b"rocksdb.index.key.is.user.key", b"\1"),),
        version: int = 5,
        more: Sequence[Entry] = (),
        index_compression: int = 0,
    ) -> bytes:
        """The whole file.

        Args:
            index: the bytes of the index block.
            deletions: the entries of the block of range deletions.
            more: of the meta index.
            index_compression: how the bytes of the index are compressed.
        """
        at_index = self.add(index, index_compression)
        names = [(b"rocksdb.properties", self.add(block_of(properties))), *more]
        if deletions:
            names.append((b"rocksdb.range_del", self.add(block_of(deletions))))
        at_meta = self.add(block_of(sorted(names)))
        handles = bytes((self._checksum,)) + at_meta + at_index
        magic = (0x88E241B785F4CFF7).to_bytes(8, "little")
        return self.content + handles.ljust(41, b"\0") + version.to_bytes(4, "little") + magic


def sst_of(
    entries: Sequence[Entry],
    deletions: Sequence[Entry] = (),
    checksum: int = XXH3,
    per_block: int = 3,
    restart_every: int = 1,
    *,
    delta_index: bool = False,
) -> bytes:
    """A whole file of internal keys and values, in their order."""
    file = File(checksum)
    index, places = [], []
    for i in range(0, len(entries), per_block):
        part = entries[i : i + per_block]
        key, block, offset = part[-1][0][:-8], block_of(part, restart_every), len(file.content)
        index.append((key, file.add(block)))
        places.append((key, offset, len(block)))
    if not delta_index:
        return file.finish(block_of(index), deletions)
    names = (b"rocksdb.index.key.is.user.key", b"rocksdb.index.value.is.delta.encoded")
    return file.finish(delta_index_of(places, restart_every), deletions, [(name, b"\1") for name in names])
