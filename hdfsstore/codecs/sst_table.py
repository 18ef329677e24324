"""Opens SST files: RocksDB's block-based tables, formats 0 to 6.

    file            data blocks | filter, index, range deletions, properties ... | meta index block | footer
    footer          sst_footer.py
    meta index      block of names and handles: rocksdb.properties, rocksdb.range_del, rocksdb.index (format 6) ...

cext/sst.pyx has the layout of blocks. (RocksDB: table/format.cc, table/meta_blocks.cc)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from hdfsstore._cext.sst import block_entries, check_block, index_extent
from hdfsstore.codecs.sst_blocks import MOST_PLAIN, decompress, read_varint
from hdfsstore.codecs.sst_footer import (
    FOOTER_SIZE,
    OTHER_TOOL,
    REMEDY,
    TRAILER,
    Footer,
    Handle,
    located,
    other_format,
    parse_footer,
)
from hdfsstore.errors import CorruptFileError, StateStoreError, UnsupportedProviderError

if TYPE_CHECKING:
    from typing_extensions import Buffer

Read = Callable[[int, int], "Buffer"]
# First key, end, sequence number, and the limits at both (cext/sst/tombstones.pxi).
Tombstone = tuple[bytes, bytes, int, int, int]

MAX_SEQUENCE = (1 << 56) - 1
RANGE_DELETION = 15
BYTEWISE = b"leveldb.BytewiseComparator"

_NO_END_LIMIT = (1 << 64) - 1
_BINARY_SEARCH = (0, 1)
_OPERATORS = (b"", b"nullptr", b"StringAppendOperator")
_SIZES = {b"rocksdb.raw.key.size", b"rocksdb.raw.value.size", b"rocksdb.num.entries"}
_MOST_ADDED = 64  # bytes that a block adds to a key and its value: sizes, a handle in an index, a restart point
_NUM_BLOCKS, _DATA_SIZE = b"rocksdb.num.data.blocks", b"rocksdb.data.size"
# Files of Spark's RocksDB have 64 MiB, of which the index is a small part.
MOST_INDEX = 256 << 20
_INDEX_TYPES = {2: "a partitioned index", 3: "an index with first keys"}


class KeyRange(NamedTuple):
    """The smallest and the largest internal key that a file may hold."""

    smallest: bytes
    largest: bytes


@dataclass(frozen=True, slots=True)
class Table:
    """An SST file, as hdfsstore._cext.sst.Merge takes it.

    Attributes:
        path: for messages.
        index, index_offset: the decompressed index block, and where it is in the file.
        data_end: where the blocks of the file end.
        most_plain: bytes that a block has at most once decompressed.
        checksum, context: the kind of checksum, and the base context checksum (format 6, otherwise 0).
        has_sizes: whether all compressed blocks have their size in front as a varint (format 2 and later).
        delta_values, user_keys: how the index is written.
        sequence: the sequence number of all entries of an ingested file, otherwise None.
        tombstones: the range deletions.
        keys: what the MANIFEST says of the file.
        properties: by name, as they are in the file.
        window: reads bytes of the file, from an offset on, so many or more.
    """

    path: str
    index: bytes
    index_offset: int
    data_end: int
    most_plain: int
    checksum: int
    context: int
    has_sizes: bool
    delta_values: bool
    user_keys: bool
    sequence: int | None
    tombstones: Sequence[Tombstone]
    keys: KeyRange
    properties: Mapping[bytes, bytes]
    window: Read

    def decompress(self, compression: int, contents: bytes) -> bytes:
        return decompress(compression, contents, self.most_plain, has_size=self.has_sizes)


def open_table(path: str, size: int, read: Read, window: Read, largest_sequence: int, keys: KeyRange) -> Table:
    """Reads what is at the end of an SST file.

    Args:
        path: for messages.
        size: of the file in bytes.
        read: reads bytes by offset and number.
        window: for the table.
        largest_sequence, keys: what the MANIFEST says of the file.

    Raises:
        CorruptFileError: the file is damaged.
        SizeLimitError: its index takes 256 MiB.
        UnsupportedVersionError, UnsupportedProviderError: it is in a format that Spark does not write.
    """
    tail = _Tail(path, size, read)
    footer = tail.footer()
    try:
        meta = _handles(tail, footer)
        at, properties = _properties(tail, footer, meta)
    except StateStoreError:
        if footer.is_known:
            raise
        raise other_format(footer.version, footer.offset, path) from None
    _check_format(footer, properties, path)
    with located(path, at.offset):
        _check_kind(meta, properties)
    index_handle = footer.index_handle or meta.get(b"rocksdb.index")
    if index_handle is None:
        raise CorruptFileError("the meta index names no index", path, footer.meta.offset, REMEDY)
    tombstones: list[Tombstone] = []
    with located(path, at.offset):
        sequence = _ingested(properties, largest_sequence)
        delta_values = _number(properties, b"rocksdb.index.value.is.delta.encoded") != 0
        user_keys = _number(properties, b"rocksdb.index.key.is.user.key") != 0
        most_plain, most_index = _most_plain(properties)
    index = tail.block(footer, index_handle, most_index, MOST_INDEX)
    with located(path, index_handle.offset):
        _check_index(index, properties, delta_values=delta_values)
    deletions = meta.get(b"rocksdb.range_del")
    if deletions is not None:
        with located(path, deletions.offset):
            tombstones = _tombstones(tail.entries(footer, deletions), sequence, keys)
    return Table(
        path=path,
        index=index,
        index_offset=index_handle.offset,
        data_end=footer.start,
        most_plain=most_plain,
        checksum=footer.checksum,
        context=footer.context,
        has_sizes=footer.has_sizes,
        delta_values=delta_values,
        user_keys=user_keys,
        sequence=sequence,
        tombstones=sorted(tombstones),
        keys=keys,
        properties=properties,
        window=window,
    )


class _Tail:
    """The end of a file, where all but data and filter of small files is; what is before it is read when needed."""

    def __init__(self, path: str, size: int, read: Read) -> None:
        self.path = path
        self.size = size
        self._read = read
        self._start = max(size - (1 << 16) - size // 64, 0)
        self._bytes = bytes(read(self._start, size - self._start)) if size else b""
        if len(self._bytes) != size - self._start:
            raise CorruptFileError("the file ends earlier than its size says", path, size, REMEDY)

    def footer(self) -> Footer:
        at = max(self.size - FOOTER_SIZE, 0)
        return parse_footer(self.read(at, FOOTER_SIZE), at, self.path)

    def read(self, offset: int, size: int) -> bytes:
        if offset >= self._start:
            return self._bytes[offset - self._start : offset - self._start + size]
        return bytes(self._read(offset, size))

    def block(self, footer: Footer, handle: Handle, most_plain: int, limit: int = MOST_PLAIN) -> bytes:
        if handle.offset + handle.size + TRAILER > footer.start:
            raise CorruptFileError(
                "a handle names a block that the file does not have", self.path, footer.start, REMEDY
            )
        whole = self.read(handle.offset, handle.size + TRAILER)
        if not check_block(whole, footer.checksum, footer.context, handle.offset):
            raise CorruptFileError(
                "the checksum of this block does not match its bytes", self.path, handle.offset, REMEDY
            )
        with located(self.path, handle.offset):
            return decompress(whole[handle.size], whole[: handle.size], most_plain, limit, footer.has_sizes)

    def entries(self, footer: Footer, handle: Handle) -> list[tuple[bytes, bytes]]:
        # RocksDB compresses none of these blocks, and they come before anything that bounds their sizes.
        block = self.block(footer, handle, handle.size)
        with located(self.path, handle.offset):
            return block_entries(block)


def _handles(tail: _Tail, footer: Footer) -> dict[bytes, Handle]:
    handles = {}
    for name, value in tail.entries(footer, footer.meta):
        with located(tail.path, footer.meta.offset):
            offset, at = read_varint(value, 0)
            size, _ = read_varint(value, at)
        handles[name] = Handle(offset, size)
    return handles


def _properties(tail: _Tail, footer: Footer, meta: Mapping[bytes, Handle]) -> tuple[Handle, dict[bytes, bytes]]:
    at = meta.get(b"rocksdb.properties")
    if at is None:
        raise CorruptFileError("the meta index names no properties", tail.path, footer.meta.offset, REMEDY)
    return at, dict(tail.entries(footer, at))


def _check_format(footer: Footer, properties: Mapping[bytes, bytes], path: str) -> None:
    """No checksum guards the format in the footer.

    The RocksDB of Spark 4 also has it in the properties. Those of Spark 3 have 0 there, and know no other formats.
    """
    named = b"rocksdb.format.version" in properties
    with located(path, footer.offset):
        own = _number(properties, b"rocksdb.format.version")
        if named and own != footer.version and (own or not footer.is_known):
            raise CorruptFileError(f"the footer declares the format {footer.version}, and the properties {own}")
    if not footer.is_known:
        raise other_format(footer.version, footer.offset, path)


def _check_index(index: bytes, properties: Mapping[bytes, bytes], *, delta_values: bool) -> None:
    """Whether the index names all data blocks, which are in front of the file. There may be bytes behind each block."""
    if not properties.keys() >= {_NUM_BLOCKS, _DATA_SIZE}:
        return
    count, end = index_extent(index, delta_values)
    expected = _number(properties, _NUM_BLOCKS), _number(properties, _DATA_SIZE)
    if count != expected[0] or end > expected[1]:
        raise CorruptFileError(
            f"the index names {count} data blocks in {end} bytes, and the file has {expected[0]} in {expected[1]} "
            "by its properties"
        )


def _check_kind(meta: Mapping[bytes, Handle], properties: Mapping[bytes, bytes]) -> None:
    index_type = _fixed(properties, b"rocksdb.block.based.table.index.type")
    comparator = properties.get(b"rocksdb.comparator", BYTEWISE)
    has: list[str] = []
    if index_type not in _BINARY_SEARCH:
        has.append(_INDEX_TYPES.get(index_type, f"an index of type {index_type}"))
    if b"rocksdb.compression_dict" in meta:
        has.append("a compression dictionary")
    if comparator != BYTEWISE:
        has.append(f"the comparator {comparator.decode('utf-8', 'replace')}")
    operator = properties.get(b"rocksdb.merge.operator", b"")
    if _number(properties, b"rocksdb.merge.operands") and operator not in _OPERATORS:
        has.append(f"operands of the merge operator {operator.decode('utf-8', 'replace')}")
    if has:
        raise UnsupportedProviderError(
            f"the file has {' and '.join(has)}, which Spark does not write and this release does not read",
            remedy=OTHER_TOOL,
        )


def _most_plain(properties: Mapping[bytes, bytes]) -> tuple[int, int]:
    """Bytes that a block of data, and the index, may have once decompressed.

    They have no more than all keys and values, and what a block adds to each; the index has keys alone.
    """
    if not properties.keys() >= _SIZES:
        return MOST_PLAIN, MOST_PLAIN
    keys, values, entries = (
        _number(properties, name)
        for name in (b"rocksdb.raw.key.size", b"rocksdb.raw.value.size", b"rocksdb.num.entries")
    )
    most_index = keys + _MOST_ADDED * (entries + 1)
    return min(most_index + values, MOST_PLAIN), most_index


def _number(properties: Mapping[bytes, bytes], name: bytes) -> int:
    return read_varint(properties[name], 0)[0] if name in properties else 0


def _fixed(properties: Mapping[bytes, bytes], name: bytes) -> int:
    value = properties.get(name, b"")
    if len(value) > 8:
        raise CorruptFileError(f"the property {name.decode()} has {len(value)} bytes, and is a number of 4 or 8")
    return int.from_bytes(value, "little")


def _ingested(properties: Mapping[bytes, bytes], largest_sequence: int) -> int | None:
    """The sequence number of an ingested file: the MANIFEST's; the file's own is 0 or the same."""
    if _fixed(properties, b"rocksdb.external_sst_file.version") < 2:
        return None
    own = _fixed(properties, b"rocksdb.external_sst_file.global_seqno")
    if own not in (0, largest_sequence):
        raise CorruptFileError(
            f"the ingested file has the sequence number {own}, and {largest_sequence} in the MANIFEST"
        )
    return largest_sequence


def _tombstones(entries: list[tuple[bytes, bytes]], ingested: int | None, keys: KeyRange) -> list[Tombstone]:
    """The range deletions, within the file's smallest and largest key.

    A compaction cuts its output into files, and a range deletion that goes on in the next file is in both. There newer
    entries may have lost their sequence numbers, so it must not hold outside of its own file.
    """
    smallest, largest = split_key(keys.smallest), split_key(keys.largest)
    is_open = largest[1:] == (MAX_SEQUENCE, RANGE_DELETION)
    found = []
    for internal, end in entries:
        if len(internal) < 8 or internal[-8] != RANGE_DELETION:
            raise CorruptFileError("an entry among the range deletions is none")
        first, sequence, _ = split_key(internal)
        first_limit, end_limit = MAX_SEQUENCE, _NO_END_LIMIT
        if first < smallest[0]:
            first, first_limit = smallest[0], smallest[1]
        if end > largest[0]:
            end, end_limit = largest[0], _NO_END_LIMIT if is_open else largest[1]
        found.append((first, end, sequence if ingested is None else ingested, first_limit, end_limit))
    return found


def split_key(internal: bytes) -> tuple[bytes, int, int]:
    """User key, sequence number and kind of an internal key, which has 8 bytes or more."""
    trailer = int.from_bytes(internal[-8:], "little")
    return internal[:-8], trailer >> 8, trailer & 0xFF
