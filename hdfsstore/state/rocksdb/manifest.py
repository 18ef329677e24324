"""Reads CURRENT and MANIFEST: the live SST files of a RocksDB, and in which order they are.

    CURRENT       name of the MANIFEST, a line feed
    MANIFEST      blocks of 32 KiB of pieces; fewer than 7 bytes at the end of a block are 0
    piece         uint32 LE CRC-32C (masked) of type and data | uint16 LE size of the data | byte type | data
    type          1 a whole record, 2 its first piece, 3 a middle one, 4 the last one; 5 to 8 the same, with the
                  uint32 LE number of the log between type and data (and in the checksum)
    record        edits: varint32 tag | fields
                  1 comparator (text), 2 log number, 3 next file number, 4 last sequence number, 9, 10 log numbers: v
                  5 compaction pointer: v level | text; 6 deleted file: v level | v number
                  103 new file: v level | v number | v size | text smallest internal key | text largest one
                      | v smallest sequence number | v largest one | v tag | text ... | v 1
                  7, 100, 102 new file of older releases
                  200 column family: v; 201 its name: text; 202 it is dropped; 203 highest number of one: v
                  300 edits that count together: v how many follow
                  8192 and more: text, may be passed over
    <n>.log       pieces likewise; record: uint64 LE sequence number | uint32 LE number of updates | updates
    v, text       varint32 or varint64; varint32 size | bytes

(RocksDB: db/log_format.h, db/version_edit.h, db/version_edit.cc)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count, pairwise
from typing import NamedTuple

from hdfsstore._cext.crc32c import crc32c
from hdfsstore.codecs.sst_blocks import read_varint
from hdfsstore.codecs.sst_table import BYTEWISE, MAX_SEQUENCE, KeyRange, split_key
from hdfsstore.errors import CorruptFileError, SizeLimitError, UnsupportedProviderError
from hdfsstore.state.rocksdb.archive import REMEDY

_OTHER_TOOL = "Read the database with RocksDB"

BLOCK = 32 << 10
HEADER = 7
WHOLE, FIRST, MIDDLE, LAST = 1, 2, 3, 4
_RECYCLED = 4
_SAFE = 1 << 13
_BLOB_EDITS = (400, 401)  # added, garbage
_FIELD_UNSAFE = 1 << 6
_FIELD_END = 1
_FIELD_BLOB = 4
_LEVELS = 64
# Limits of the time that the files of a zip can take. 256 MiB, the most that it holds, have no more pieces, and in
# edits of RocksDB hardly more numbers.
_MOST_PIECES = 4 << 20
_MOST_NUMBERS = 32 << 20
# And of the memory: a group is kept until its end. RocksDB makes them for several of its column families.
_MOST_IN_GROUP = 1 << 10


class LiveFile(NamedTuple):
    """An SST file of a RocksDB.

    Attributes:
        level: files of level 0 may overlap, and those of a level after it do not.
        number: of the file, from which it has its name.
        size: in bytes.
        keys: the smallest and the largest internal key.
        smallest_sequence, largest_sequence: of its entries.
    """

    level: int
    number: int
    size: int
    keys: KeyRange
    smallest_sequence: int
    largest_sequence: int

    @property
    def name(self) -> str:
        return f"{self.number:06d}.sst"


@dataclass
class _State:
    files: dict[int, LiveFile] = field(default_factory=dict)
    numbered: bool = False  # whether a next file number has come, which each MANIFEST has


def live_files(files: Mapping[str, bytes], path: str) -> list[LiveFile]:
    """The SST files that are live, from the newest to the oldest: level 0 by sequence numbers, then level by level.

    Args:
        files: CURRENT, MANIFEST and others, by name.
        path: of the zip, for messages.

    Raises:
        CorruptFileError: the MANIFEST is missing or damaged.
        SizeLimitError: it and the logs have more than 4 Mi pieces, it more than 32 Mi numbers in them, or a group of
            more than 1 Ki edits.
        UnsupportedProviderError: the database has what Spark's do not have.
    """
    current = files.get("CURRENT", b"")
    name = current.decode("ascii", "replace").removesuffix("\n")
    if not name.startswith("MANIFEST-") or name not in files:
        raise CorruptFileError(f"CURRENT names {name!r}, which is no MANIFEST of the zip", path, None, REMEDY)
    pieces = count(1)
    for log, content in files.items():
        if log.endswith(".log") and any(_updates(batch) for _, batch in _records(content, f"{path}:{log}", pieces)):
            raise UnsupportedProviderError(
                f"{log} has changes that are in no SST file; those of Spark have none",
                path,
                remedy="Open the database with RocksDB and flush it",
            )
    state = _State()
    place = f"{path}:{name}"
    group: list[_Edit] = []
    left = _MOST_NUMBERS
    for offset, record in _records(files[name], place, pieces):
        try:
            edit = _Edit(record, left)
            left = edit.left
            if edit.follow >= _MOST_IN_GROUP:
                raise SizeLimitError(f"a record begins a group of {edit.follow + 1} edits that count together")
            if group and edit.follow != group[-1].follow - 1:
                raise CorruptFileError("is not the next one of a group of edits that count together")
            group.append(edit)
            if edit.follow <= 0:
                for each in group:
                    each.apply(state)
                group.clear()
        except CorruptFileError as error:
            raise CorruptFileError(f"a record {error.message}", place, offset, REMEDY) from error
        except (UnsupportedProviderError, SizeLimitError) as error:
            raise type(error)(error.message, place, offset, _OTHER_TOOL) from error
    # As in RocksDB, a group that is cut off at the end counts for nothing.
    if not state.numbered:
        raise CorruptFileError("it has no number of the next file", place, len(files[name]), REMEDY)
    return _in_order(list(state.files.values()), place)


def _updates(batch: bytes) -> int:
    """How many updates a record of a log has. Spark 3.2 leaves records without any."""
    return int.from_bytes(batch[8:12], "little") or len(batch) - 12


def _in_order(files: list[LiveFile], place: str) -> list[LiveFile]:
    level_0 = sorted((f for f in files if f.level == 0), key=lambda f: (-f.largest_sequence, -f.number))
    others = sorted((f for f in files if f.level), key=lambda f: (f.level, _place_of(f.keys.smallest)))
    for before, after in pairwise(others):
        if before.level == after.level and _is_behind(before.keys.largest, after.keys.smallest):
            raise CorruptFileError(
                f"the files {before.number} and {after.number} of level {after.level} overlap", place, None, REMEDY
            )
    return level_0 + others


def _is_behind(key: bytes, other: bytes) -> bool:
    return _place_of(key) > _place_of(other)


def _place_of(key: bytes) -> tuple[bytes, int, int]:
    user, sequence, kind = split_key(key)
    return user, -sequence, -kind


def _records(content: bytes, place: str, numbers: Iterator[int]) -> Iterator[tuple[int, bytes]]:
    """The records, with their offsets. Each piece takes a number, of which there are so many."""
    at, begun = 0, 0
    pieces: list[bytes] | None = None
    while at < len(content):
        room = BLOCK - at % BLOCK
        if room < HEADER:
            if any(content[at : at + room]):
                raise CorruptFileError("bytes behind the last piece of a block are not 0", place, at, REMEDY)
            at += room
            continue
        if next(numbers) > _MOST_PIECES:
            raise SizeLimitError(
                f"the zip has more than {_MOST_PIECES} pieces of records up to here", place, at, _OTHER_TOOL
            )
        header = content[at : at + HEADER]
        size = int.from_bytes(header[4:6], "little")
        kind = header[6] if len(header) == HEADER else 0
        data = content[at + HEADER : at + HEADER + size]
        if len(header) < HEADER or len(data) < size or size > room - HEADER:
            raise CorruptFileError("a piece of a record is cut off", place, at, REMEDY)
        if masked(crc32c(header[6:] + data)) != header[:4]:
            raise CorruptFileError("the checksum of a piece does not match its bytes", place, at, REMEDY)
        if not WHOLE <= kind <= LAST + _RECYCLED:
            raise UnsupportedProviderError(
                f"a piece of a record has the type {kind}, which Spark's RocksDB does not write "
                "(logs that are compressed or have timestamps are not read)",
                place,
                at,
                _OTHER_TOOL,
            )
        if kind > LAST:
            kind, data = kind - _RECYCLED, data[4:]
        if (pieces is None) != (kind in (WHOLE, FIRST)):
            raise CorruptFileError("the pieces of a record do not follow each other", place, at, REMEDY)
        if kind in (WHOLE, FIRST):
            begun, pieces = at, []
        assert pieces is not None
        pieces.append(data)
        at += HEADER + size
        if kind in (WHOLE, LAST):
            yield begun, b"".join(pieces)
            pieces = None
    if pieces is not None:
        raise CorruptFileError("the last record is cut off", place, begun, REMEDY)


def masked(crc: int) -> bytes:
    return (((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF).to_bytes(4, "little")


class _Edit:
    """A record of the MANIFEST, which changes a state.

    Attributes:
        follow: how many records follow in its group; -1: it is in none.
        left: of the numbers that it and those after it may have.
    """

    def __init__(self, record: bytes, left: int) -> None:
        self.follow = -1
        self._record = record
        self._at = 0
        self._numbered = False
        self._deleted = set[tuple[int, int]]()
        self._added: list[LiveFile] = []
        self.left = left
        while self._at < len(self._record):
            tag = self._number()
            if tag == 1:
                comparator = self._text()
                if comparator != BYTEWISE:
                    raise UnsupportedProviderError(
                        f"the database has the comparator {comparator.decode('utf-8', 'replace')}"
                    )
            elif tag in (2, 3, 4, 9, 10, 203):
                self._numbered |= tag == 3
                self._number()
            elif tag == 300:
                self.follow = self._number()
            elif tag == 5:
                self._number()
                self._text()
            elif tag == 6:
                self._deleted.add((self._number(), self._number()))
            elif tag in (7, 100, 102, 103):
                self._added.append(self._new_file(tag))
            elif tag in (200, 201, 202):
                self._other_family(tag)
            elif tag in _BLOB_EDITS:
                raise UnsupportedProviderError("the database has blob files, which Spark's do not have")
            elif tag >= _SAFE:
                self._text()
            else:
                raise UnsupportedProviderError(f"the database has an edit with the tag {tag}, which is not known")

    def apply(self, state: _State) -> None:
        state.numbered |= self._numbered
        files = state.files
        for level, number in self._deleted:
            if number not in files or files[number].level != level:
                raise CorruptFileError(f"deletes the file {number} of level {level}, which is not there")
            del files[number]
        for new in self._added:
            if new.number in files:
                raise CorruptFileError(f"adds the file {new.number}, which is there already")
            files[new.number] = new

    def _other_family(self, tag: int) -> None:
        if tag == 202 or (tag == 200 and self._number() != 0) or tag == 201:
            raise UnsupportedProviderError("the database has column families of RocksDB, which Spark's do not have")

    def _new_file(self, tag: int) -> LiveFile:
        level, number = self._number(), self._number()
        if tag == 102:
            self._no_path(self._number())
        size = self._number()
        keys = KeyRange(self._text(), self._text())
        if min(map(len, keys)) < 8 or level >= _LEVELS or _is_behind(keys.smallest, keys.largest):
            raise CorruptFileError(f"has an impossible level or key of the file {number}")
        sequences = (0, 0) if tag == 7 else (self._number(), self._number())
        if max(sequences) > MAX_SEQUENCE:
            raise CorruptFileError(f"has impossible sequence numbers of the file {number}")
        while tag == 103 and (what := self._number()) != _FIELD_END:
            value = self._text()
            if what == _FIELD_BLOB and read_varint(value, 0)[0]:
                raise UnsupportedProviderError("the database has blob files, which Spark's do not have")
            if what == 65:
                self._no_path(value[0] if value else 0)
            elif what & _FIELD_UNSAFE:
                raise UnsupportedProviderError(f"the database has files with the field {what}, which is not known")
        return LiveFile(level, number, size, keys, *sequences)

    def _no_path(self, path_id: int) -> None:
        if path_id:
            raise UnsupportedProviderError("the database has files in several folders, which Spark's do not have")

    def _number(self) -> int:
        self.left -= 1
        if self.left < 0:
            raise SizeLimitError(f"the MANIFEST has more than {_MOST_NUMBERS} numbers in its edits")
        try:
            number, self._at = read_varint(self._record, self._at)
        except CorruptFileError:
            raise CorruptFileError("ends within a number") from None
        return number

    def _text(self) -> bytes:
        size = self._number()
        text = self._record[self._at : self._at + size]
        if len(text) < size:
            raise CorruptFileError("ends within a text")
        self._at += size
        return text
