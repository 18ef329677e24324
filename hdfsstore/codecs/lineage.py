"""Reads and writes the header of a delta or changelog (StateStoreChangelog.scala). Decompressed:

    int16 BE length | layout         Java's writeUTF, see below; v1 is without
    int16 BE length | lineage        JSON, ASCII, at most 65,535 bytes:
                                     [{"version":1,"checkpointUniqueId":"<id>"},
                                      {"version":2,"checkpointUniqueId":"<id>"}] without the line break

    layout   unique id, lineage   records
    v1       no                   without types: cext/records.pyx
    v2       no                   with types: cext/records/typed.pxi
    v3       yes                  without types
    v4       yes                  with types

Deltas are v1 or v3. The lineage has each version once, from the last snapshot that the writer knew or assumed to the
version before the file's own. It is [] if the file builds on no version with an id.

The size of a first key of v1 can look like a layout: 161,329 (0x00027631) like "v1", 161,330 like "v2". Spark takes a
file for v1 if the text is no number after a v (SPARK-51922, SPARK-52553).
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from hdfsstore.codecs.records import Start
from hdfsstore.errors import CorruptFileError, StateStoreError, UnsupportedVersionError

MAX_LINEAGE_BYTES = 0xFFFF
# Ids are parts of file names, so none may lead out of the folder.
UNIQUE_ID = re.compile(r"[0-9A-Za-z-]+")

_LAYOUT = "v3"
_WITH_IDS = {"v3": False, "v4": True}
_WITHOUT_IDS = {"v1": False, "v2": True}
_VERSION = re.compile(r"v[+-]?\d+")
# The longest text that is read for a layout without a unique id.
_MAX_LAYOUT = 8
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


def read_header(reader: Reader, path: str, version: int, *, typed: bool = False) -> tuple[list[LineageItem], Start]:
    """Reads the header of a version's delta with a unique id, and no byte after it.

    Args:
        reader: the decompressed file, at its start.
        path: the file's name in errors.
        version: the file's version; the lineage must end at the version before it.
        typed: whether the records may have types.

    Returns:
        The lineage, and where the records begin.

    Raises:
        CorruptFileError: there is no such header, or the lineage contradicts itself.
        UnsupportedVersionError: the records are in another layout.
    """
    layout = _read_utf(reader, path, 0)
    name = layout.decode("ascii", "replace")
    known = [each for each, has_types in _WITH_IDS.items() if typed or not has_types]
    if name not in known:
        listed = " or ".join(map(repr, known))
        if _VERSION.fullmatch(name):
            raise UnsupportedVersionError(f"the delta has layout {name!r}, this release reads {listed}", path, 0)
        raise CorruptFileError(f"a delta with a unique id has to begin with {listed}", path, 0, _REMEDY)
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
    return lineage, Start(start + 2 + len(text), _WITH_IDS[name])


def read_start(reader: Reader, path: str) -> Start:
    """Reads the layout of a changelog without a unique id, which v1 does not have.

    Raises:
        UnsupportedVersionError: the records are in another layout.
    """
    head = _read_up_to(reader, 2)
    size = int.from_bytes(head, "big")
    if len(head) < 2 or not 2 <= size <= _MAX_LAYOUT:
        return Start(rest=head)
    text = _read_up_to(reader, size)
    name = text.decode("ascii", "replace")
    if not _VERSION.fullmatch(name) or abs(int(name[1:])) > 0x7FFF or int(name[1:]) == 1:
        return Start(rest=head + text)
    if name not in _WITHOUT_IDS:
        raise UnsupportedVersionError(
            f"the changelog has layout {name}, this release reads v1 and v2 without a unique id", path, 0
        )
    return Start(len(head) + len(text), _WITHOUT_IDS[name])


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
    data = _read_up_to(reader, size)
    if len(data) < size:
        raise _bad("the file ends in its header", path, start + len(data))
    return data


def _read_up_to(reader: Reader, size: int) -> bytes:
    """The next bytes; less at the end of the file."""
    data = memoryview(bytearray(size))
    filled = 0
    while filled < size and (n := reader.readinto(data[filled:])):
        filled += n
    return bytes(data[:filled])


def _bad(problem: str, path: str, offset: int) -> CorruptFileError:
    return CorruptFileError(f"{problem} {_DECOMPRESSED}", path, offset, _REMEDY)
