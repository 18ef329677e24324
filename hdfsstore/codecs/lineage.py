"""Reads and writes the header of a delta in checkpoint format version 2, with its lineage. Decompressed:

    int16 BE length | "v3"           Java's writeUTF: the layout of the records after it: that of records.py
    int16 BE length | lineage        JSON, ASCII, at most 65,535 bytes:
                                     [{"version":1,"checkpointUniqueId":"<id>"},
                                      {"version":2,"checkpointUniqueId":"<id>"}] without the line break

The lineage has each version once, from the last snapshot that the writer knew or assumed to the version before the
file's own. It is [] if the file builds on no version with an id. The header is Spark's changelog format v3
(StateStoreChangelog.scala).
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from hdfsstore.errors import CorruptFileError, StateStoreError, UnsupportedVersionError

MAX_LINEAGE_BYTES = 0xFFFF
# Ids are parts of file names, so none may lead out of the folder.
UNIQUE_ID = re.compile(r"[0-9A-Za-z-]+")

_LAYOUT = "v3"
_VERSION = re.compile(r"v\d+")
_DECOMPRESSED = "(offset counted in the decompressed bytes)"
_REMEDY = "The file is damaged: restore it, or read a version that does not need it"


class LineageItem(NamedTuple):
    """One version of a store, and the id of the attempt that wrote it."""

    version: int
    checkpoint_unique_id: str


class Reader(Protocol):
    """A decompressed stream: fills a buffer with bytes, and returns 0 at the end."""

    def readinto(self, buffer: bytearray | memoryview, /) -> int: ...


def fits(lineage: Sequence[LineageItem]) -> bool:
    """Whether a header can hold the lineage."""
    return len(_json(lineage)) <= MAX_LINEAGE_BYTES


def newest_that_fit(lineage: Sequence[LineageItem]) -> list[LineageItem]:
    """The end of the lineage that a header can hold: the load goes on by the lineage of the delta where it begins."""
    size = len("[]") - len(",")
    first = len(lineage)
    while first:
        size += len(",") + len(_json(lineage[first - 1 : first])) - len("[]")
        if size > MAX_LINEAGE_BYTES:
            break
        first -= 1
    return list(lineage[first:])


def encode_header(lineage: Sequence[LineageItem]) -> bytes:
    """The header of a delta.

    Args:
        lineage: in ascending order of version, without the file's own version.

    Raises:
        StateStoreError: the lineage does not fit.
    """
    text = _json(lineage)
    if len(text) > MAX_LINEAGE_BYTES:
        raise StateStoreError(
            f"a lineage of {len(lineage)} versions takes {len(text)} bytes; a header holds {MAX_LINEAGE_BYTES}",
            remedy="Prune it to the newest that fit",
        )
    return _utf(_LAYOUT.encode()) + _utf(text)


def read_header(reader: Reader, path: str, version: int) -> tuple[list[LineageItem], int]:
    """Reads the header of a version's delta, and no byte after it.

    Args:
        reader: the decompressed file, at its start.
        path: the file's name in errors.
        version: the file's version; the lineage must end at the version before it.

    Returns:
        The lineage, and the size of the header in bytes.

    Raises:
        CorruptFileError: there is no such header, or the lineage contradicts itself.
        UnsupportedVersionError: the records are in another layout.
    """
    layout = _read_utf(reader, path, 0)
    name = layout.decode("ascii", "replace")
    if name != _LAYOUT:
        if _VERSION.fullmatch(name):
            raise UnsupportedVersionError(f"the delta has layout {name}, this release reads {_LAYOUT}", path, 0)
        raise CorruptFileError(f"a delta with a unique id has to begin with {_LAYOUT!r}", path, 0, _REMEDY)
    start = 2 + len(layout)
    text = _read_utf(reader, path, start)
    try:
        items = json.loads(text.decode("ascii"))
        if not isinstance(items, list):
            raise TypeError(f"{items!r} is not a list")
        lineage = [_item(fields) for fields in items]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _bad(f"the lineage cannot be parsed: {error!r}", path, start) from error
    if [item.version for item in lineage] != list(range(version - len(lineage), version)):
        versions = ", ".join(str(item.version) for item in lineage[:20])
        raise _bad(f"the lineage of version {version} names the versions {versions}", path, start)
    return lineage, start + 2 + len(text)


def _item(fields: object) -> LineageItem:
    if not isinstance(fields, dict):
        raise TypeError(f"{fields!r} is not an object")
    version, unique_id = fields["version"], fields["checkpointUniqueId"]
    if type(version) is not int or version < 1 or type(unique_id) is not str or not UNIQUE_ID.fullmatch(unique_id):
        raise ValueError(f"{version!r} with the id {unique_id!r}")
    return LineageItem(version, unique_id)


def _json(lineage: Sequence[LineageItem]) -> bytes:
    items = [{"version": version, "checkpointUniqueId": unique_id} for version, unique_id in lineage]
    return json.dumps(items, separators=(",", ":")).encode("ascii")


def _utf(text: bytes) -> bytes:
    return len(text).to_bytes(2, "big") + text


def _read_utf(reader: Reader, path: str, start: int) -> bytes:
    size = int.from_bytes(_read(reader, 2, path, start), "big")
    return _read(reader, size, path, start + 2)


def _read(reader: Reader, size: int, path: str, start: int) -> bytes:
    data = memoryview(bytearray(size))
    filled = 0
    while filled < size:
        n = reader.readinto(data[filled:])
        if not n:
            raise _bad("the file ends in its header", path, start + filled)
        filled += n
    return bytes(data)


def _bad(problem: str, path: str, offset: int) -> CorruptFileError:
    return CorruptFileError(f"{problem} {_DECOMPRESSED}", path, offset, _REMEDY)
