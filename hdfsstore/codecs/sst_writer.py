"""Writes SST files as Spark's RocksDB does: format 5, LZ4, XXH3, blocks of 4 KiB, a Bloom filter.

    file    data blocks | filter | index | properties | meta index | footer

All rows have the sequence number 0, as in RocksDB's last level. hdfsstore/codecs/sst_table.py has the layout of the
file, and cext/sst.pyx that of blocks.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence

from hdfsstore._cext.sst import SstBuilder
from hdfsstore.codecs.records import RecordChunk
from hdfsstore.codecs.sst_footer import FOOTER_SIZE, MAGIC
from hdfsstore.codecs.sst_table import BYTEWISE, KeyRange

# As RocksDB's target_file_size_base. The last block, the filter and the index come on top.
FILE_BYTES = 64 << 20

_XXH3 = 4
_FORMAT = 5
_VALUE = (1).to_bytes(8, "little")  # sequence number and kind, behind a key
_FILTER = b"fullfilter.rocksdb.BuiltinBloomFilter"


class SortedRows:
    """Rows in the order of their keys, which go to SST files one after the other.

    Args:
        chunks: each key once, without tombstones.
    """

    def __init__(self, chunks: Iterable[RecordChunk]) -> None:
        self._chunks = iter(chunks)
        self._chunk: RecordChunk | None = None
        self._row = 0  # the next one of the chunk

    def more(self) -> bool:
        """Whether there is another row."""
        while self._chunk is None or self._row == len(self._chunk):
            self._chunk, self._row = next(self._chunks, None), 0
            if self._chunk is None:
                return False
        return True

    def add_to(self, builder: SstBuilder) -> None:
        """Adds the rest of a chunk, until the file is full."""
        if (chunk := self._chunk) is not None:
            self._row = builder.add(chunk.data, chunk.keys, chunk.values, self._row)


class SstWriter:
    """Writes one file.

    Args:
        rows: from which it takes what fits.
        number: of the file in its database.
        after: the last key of the file before.
        file_bytes: size at which the file ends.
    """

    def __init__(self, rows: SortedRows, number: int, after: bytes | None = None, file_bytes: int = FILE_BYTES) -> None:
        self._rows = rows
        self._number = number
        self._builder = SstBuilder(file_bytes=file_bytes, after=after)

    @property
    def size(self) -> int:
        """Bytes of the file so far."""
        return self._builder.size + FOOTER_SIZE

    @property
    def count(self) -> int:
        """Rows of the file so far."""
        return self._builder.count

    @property
    def largest(self) -> bytes:
        """The last key."""
        return self._builder.largest or b""

    @property
    def keys(self) -> KeyRange:
        """The smallest and the largest internal key."""
        return KeyRange((self._builder.smallest or b"") + _VALUE, self.largest + _VALUE)

    def pieces(self) -> Iterator[bytes]:
        """The bytes of the file, in pieces of about a chunk.

        Raises:
            StateStoreError: a key is not behind the one before.
            SizeLimitError: a row has 1 GiB or more.
        """
        builder = self._builder
        while not builder.is_full and self._rows.more():
            self._rows.add_to(builder)
            yield builder.take()
        builder.finish()
        data_size = builder.size
        names = [(_FILTER, builder.add_filter())]
        index = builder.add_index()
        properties = self._properties(data_size, names[0][1][1], index[1])
        names.append((b"rocksdb.properties", builder.add_block(_block(properties))))
        meta = builder.add_block(_block([(name, _numbers(*handle)) for name, handle in names]))
        footer = bytes((_XXH3,)) + _numbers(*meta, *index)
        yield builder.take()
        yield footer.ljust(41, b"\0") + _FORMAT.to_bytes(4, "little") + MAGIC.to_bytes(8, "little")

    def _properties(self, data_size: int, filter_size: int, index_size: int) -> list[tuple[bytes, bytes]]:
        """What RocksDB checks, shows and counts by. It reads files without the other properties, too."""
        builder, now = self._builder, int(time.time())
        numbers = {
            b"column.family.id": 0,
            b"creation.time": now,
            b"data.size": data_size,
            b"deleted.keys": 0,
            b"file.creation.time": now,
            b"filter.size": filter_size,
            b"format.version": _FORMAT,
            b"index.key.is.user.key": 1,
            b"index.size": index_size,
            b"index.value.is.delta.encoded": 1,
            b"key.largest.seqno": 0,
            b"merge.operands": 0,
            b"num.data.blocks": builder.num_blocks,
            b"num.entries": builder.count,
            b"num.filter_entries": builder.count,
            b"num.range-deletions": 0,
            b"original.file.number": self._number,
            b"raw.key.size": builder.key_bytes,
            b"raw.value.size": builder.value_bytes,
            b"tail.start.offset": data_size,
        }
        texts = {
            b"block.based.table.index.type": bytes(4),
            b"block.based.table.prefix.filtering": b"0",
            b"block.based.table.whole.key.filtering": b"1",
            b"column.family.name": b"default",
            b"comparator": BYTEWISE,
            b"compression": b"LZ4",
            b"filter.policy": b"bloomfilter",
        }
        both = {**texts, **{name: _numbers(number) for name, number in numbers.items()}}
        return sorted((b"rocksdb." + name, value) for name, value in both.items())


def put_varint(number: int) -> bytes:
    """A number of at most 64 bits, as sst_blocks.read_varint reads it."""
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*found, number))


def _numbers(*numbers: int) -> bytes:
    return b"".join(map(put_varint, numbers))


def _block(entries: Sequence[tuple[bytes, bytes]]) -> bytes:
    """A block of which each entry is a restart point."""
    data, restarts = b"", []
    for name, value in entries:
        restarts.append(len(data))
        data += _numbers(0, len(name), len(value)) + name + value
    return data + b"".join(at.to_bytes(4, "little") for at in (*restarts, len(restarts)))
