"""Reads the footer of an SST file.

    footer 0        handle of the meta index | handle of the index | padding to 40 bytes | uint64 LE magic number
                    The checksum is CRC-32C.                                                           48 bytes
    footer 1 to 5   byte checksum | handle of the meta index | handle of the index | padding to 41 bytes
                    | uint32 LE format | uint64 LE magic number                                        53 bytes
    footer 6        byte checksum | 3e 00 7a 00 | uint32 LE checksum of the footer | uint32 LE base context checksum
                    | uint32 LE size of the meta index, which ends 5 bytes before the footer | 24 bytes 0
                    | uint32 LE format | uint64 LE magic number
    handle          varint64 offset | varint64 size
    checksum        0 none, 1 CRC-32C (masked), 2 xxHash32, 3 XXH64, 4 XXH3

In format 6 the checksum of each block also depends on its offset. No checksum guards the footers of the others.
(RocksDB: table/format.cc)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from hdfsstore._cext.sst import footer_checksum
from hdfsstore.codecs.sst_blocks import read_varint
from hdfsstore.errors import CorruptFileError, StateStoreError, UnsupportedProviderError, UnsupportedVersionError

REMEDY = "The file is damaged: restore it, or read another version"
OTHER_TOOL = "Read the database with RocksDB"

FOOTER_SIZE = 53
TRAILER = 5
MAGIC = 0x88E241B785F4CFF7
_MAGIC_0 = 0xDB4775248B80FB57
_SIZE_0 = 48
_CRC32C = 1
_OTHER_MAGICS = {
    0x8242229663BF9564: "a plain table",
    0x4F3418EB7A8F13B8: "a plain table of format 0",
    0x926789D0C5F17873: "a cuckoo table",
}
_EXTENDED_MAGIC = b"\x3e\x00\x7a\x00"
_EXTENDED = 6
# RocksDB has come to format 7 since 2012, and most damage makes the number larger.
_NO_FORMAT = 32
_FORMAT_AT = 41


class Handle(NamedTuple):
    """Where a block lies in its file, without its compression and checksum."""

    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Footer:
    """The footer of a file.

    Attributes:
        version: the format. If it is not a known one, the others are by the layout of formats 1 to 5.
        offset: of the version in the file.
        start: of the footer.
        checksum: the kind.
        context: the base context checksum of format 6, otherwise 0.
        meta, index_handle: the meta index, and the index before format 6.
    """

    version: int
    offset: int
    start: int
    checksum: int
    context: int
    meta: Handle
    index_handle: Handle | None

    @property
    def is_known(self) -> bool:
        return self.version <= _EXTENDED

    @property
    def has_sizes(self) -> bool:
        """Whether all compressed blocks have their size in front as a varint."""
        return self.version >= 2


@contextmanager
def located(path: str, offset: int) -> Iterator[None]:
    """Adds the path and the offset of a block to errors of its contents."""
    try:
        yield
    except StateStoreError as error:
        raise type(error)(error.message, path, offset, error.remedy or REMEDY) from error


def parse_footer(footer: bytes, at: int, path: str) -> Footer:
    """Parses the last bytes of a file.

    Args:
        at: their offset in the file.
        path: for messages.

    Raises:
        CorruptFileError: they are no footer, or a damaged one.
        UnsupportedVersionError, UnsupportedProviderError: the file is no table of formats 0 to 6.
    """
    magic = int.from_bytes(footer[-8:], "little")
    if magic in _OTHER_MAGICS:
        raise UnsupportedProviderError(
            f"the file is {_OTHER_MAGICS[magic]}, which this release does not read", path, remedy=OTHER_TOOL
        )
    if magic == _MAGIC_0 and len(footer) >= _SIZE_0:
        begin = at + len(footer) - _SIZE_0
        with located(path, begin):
            return Footer(0, begin + _SIZE_0 - 8, begin, _CRC32C, 0, *_handles(footer[-_SIZE_0:-8], 0))
    if len(footer) < FOOTER_SIZE or magic != MAGIC:
        raise CorruptFileError("the file does not end like an SST file", path, at, REMEDY)
    version = int.from_bytes(footer[_FORMAT_AT:-8], "little")
    offset = at + _FORMAT_AT
    if not version or version >= _NO_FORMAT:
        raise CorruptFileError(f"the footer declares the format {version}", path, offset, REMEDY)
    if footer[0] > 4:
        raise CorruptFileError(f"the footer names a checksum of kind {footer[0]}", path, at, REMEDY)
    is_extended = footer[1:5] == _EXTENDED_MAGIC
    as_6 = footer[:_FORMAT_AT] + _EXTENDED.to_bytes(4, "little") + footer[-8:]
    if (is_extended and version != _EXTENDED and _is_whole(as_6, at)) or (
        version == _EXTENDED and not (is_extended and _is_whole(footer, at))
    ):
        raise CorruptFileError("the checksum of the footer does not match its bytes", path, at, REMEDY)
    if version < _EXTENDED or not is_extended:
        with located(path, at):
            return Footer(version, offset, at, footer[0], 0, *_handles(footer[:_FORMAT_AT], 1))
    if version != _EXTENDED:
        raise other_format(version, offset, path)
    context, meta_size = (int.from_bytes(footer[i : i + 4], "little") for i in (9, 13))
    meta_at = at - TRAILER - meta_size
    if meta_at < 0:
        raise CorruptFileError("the footer names a meta index that the file does not have", path, at, REMEDY)
    return Footer(version, offset, at, footer[0], context, Handle(meta_at, meta_size), None)


def other_format(version: int, offset: int, path: str) -> UnsupportedVersionError:
    """The error of a format that is not known, where nothing tells damage."""
    return UnsupportedVersionError(
        f"the SST file has format {version}, and this release reads 0 to 6: either another RocksDB than Spark's has "
        "written the file, or it is damaged here, where no checksum tells",
        path,
        offset,
        "If Spark has written it, restore it or read another version; otherwise read the database with RocksDB",
    )


def _handles(footer: bytes, place: int) -> tuple[Handle, Handle]:
    numbers = list[int]()
    for _ in range(4):
        number, place = read_varint(footer, place)
        numbers.append(number)
    return Handle(*numbers[:2]), Handle(*numbers[2:])


def _is_whole(footer: bytes, at: int) -> bool:
    found, context = (int.from_bytes(footer[i : i + 4], "little") for i in (5, 9))
    return bool(footer_checksum(footer[:5] + bytes(4) + footer[9:], footer[0], context, at) == found)
