"""Encodes and decodes the zip of a version: a RocksDB without its SST files, which it names (RocksDBFileManager.scala).

    <v>[_<id>].zip    MANIFEST-<n>, CURRENT, OPTIONS-<n>, <n>.log (empty), metadata
    metadata          "v1" or "v2", a line feed, and one line of JSON, which is the same in both:
                      {"sstFiles":[{"localFileName":"000008.sst",
                                    "dfsSstFileName":"000008-<uuid>.sst","sizeBytes":1507}],
                       "numKeys":4,"numInternalKeys":0,"columnFamilyMapping":{"default":1},...}
    SSTs/<dfsSstFileName>    the SST files, uploaded once and named by every zip that needs them

Spark 4.0 puts the checkpoint format version behind the v, as its process knew it when it first met such a file, and
reads no other number. Spark 3, 4.1 and later write and read v1 only.

numKeys is -1 if the keys were not counted. The mapping has the number of each virtual column family. Stores without
families may have it empty, and Spark 3 has none. columnFamilyTypeMap tells internal families. Nothing here needs it:
the names of such families begin with `$`.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from hdfsstore.codecs.records import Extensions
from hdfsstore.errors import CorruptFileError, UnsupportedProviderError, UnsupportedVersionError

CHANGELOG_FILES = Extensions(delta="changelog", snapshot="zip")

SST_FOLDER = "SSTs"
SST = ".sst"

_METADATA = "metadata"
_VERSIONS = ("v1", "v2")
_DEFAULT = "default"
# A MANIFEST grows by some 200 bytes with each commit, and a new one begins where a task loads a version: this takes
# more than a million commits. A zip that is larger once decompressed was made to fill the memory.
_MAX_BYTES = 256 << 20
# The metadata has about 130 bytes for each SST file, so this is that of some terabytes. As objects of Python, JSON can
# take 24 times as much.
_MAX_METADATA = 8 << 20
# Spark's numbers of families are shorts.
_LAST_FAMILY = (1 << 15) - 1
_LOCAL_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z_.-]*")
REMEDY = "The file is damaged: restore it, or let the load go on from an older one and the changelogs after it"


class Sst(NamedTuple):
    """An SST file of a zip: its name on the local disk, below SSTs/, and its size in bytes."""

    local: str
    remote: str
    size: int


class Archive(NamedTuple):
    """A zip.

    Attributes:
        files: contents by local name, without the SST files.
        ssts: the SST files.
        num_keys: None if they were not counted.
        families: the number of each virtual column family; stores without families have at most `default`.
    """

    files: Mapping[str, bytes]
    ssts: Sequence[Sst]
    num_keys: int | None
    families: Mapping[str, int] = MappingProxyType({_DEFAULT: 1})


def encode(archive: Archive) -> bytes:
    """The zip file."""
    fields = {
        "sstFiles": [
            {"localFileName": sst.local, "dfsSstFileName": sst.remote, "sizeBytes": sst.size} for sst in archive.ssts
        ],
        "numKeys": -1 if archive.num_keys is None else archive.num_keys,
        "numInternalKeys": 0,
        # Spark writes this without column families, too. Without it, Spark would write a zip with its next commit.
        "columnFamilyMapping": dict(archive.families),
        "columnFamilyTypeMap": {name: name.startswith("$") for name in archive.families},
        "maxColumnFamilyId": max(archive.families.values(), default=0),
    }
    metadata = "v1\n" + json.dumps(fields, separators=(",", ":"))
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as target:
        for name, data in {**archive.files, _METADATA: metadata.encode()}.items():
            target.writestr(name, data)
    return content.getvalue()


def decode(content: bytes, path: str) -> Archive:
    """Reads a zip file.

    Raises:
        CorruptFileError: it is damaged, has a file twice, or takes more than 256 MiB once decompressed, or its metadata
            more than 8 MiB.
        UnsupportedVersionError: its metadata is in another version.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as source:
            entries = source.infolist()
            _check_entries(entries, path)
            files = {entry.filename: _content(source, entry) for entry in entries}
    except (zipfile.BadZipFile, zlib.error, EOFError, OverflowError, RuntimeError, ValueError) as error:
        raise CorruptFileError(f"it is not a zip file, or a damaged one: {error}", path, remedy=REMEDY) from error
    metadata = files.pop(_METADATA, b"").decode("utf-8", "replace")
    version, _, text = metadata.partition("\n")
    if re.fullmatch(r"v\d+", version) and version not in _VERSIONS:
        raise UnsupportedVersionError(f"its metadata is in version {version}, not {' or '.join(_VERSIONS)}", path)
    try:
        fields = json.loads(text if version in _VERSIONS else metadata)
        ssts = [Sst(str(f["localFileName"]), str(f["dfsSstFileName"]), int(f["sizeBytes"])) for f in fields["sstFiles"]]
        num_keys = int(fields["numKeys"])
        families = {str(name): int(n) for name, n in (fields.get("columnFamilyMapping") or {}).items()}
        if not all(0 <= n <= _LAST_FAMILY for n in families.values()):
            raise ValueError(f"a column family has a number that is not between 0 and {_LAST_FAMILY}")
        if len(set(families.values())) < len(families):
            raise ValueError("two column families have the same number")
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise CorruptFileError(f"its metadata makes no sense: {error!r}", path, remedy=REMEDY) from error
    _check_names([*files, *(name for sst in ssts for name in sst[:2])], path)
    _check_once((sst.local for sst in ssts), "names", path)
    return Archive(files, ssts, None if num_keys < 0 else num_keys, families)


def belongs(name: str) -> bool:
    """Whether a file of a RocksDB goes into its zip. rocksdict's own files and SST files do not."""
    return name == "CURRENT" or name.startswith(("MANIFEST-", "OPTIONS-")) or name.endswith(".log")


def refuse_families(names: Iterable[str], path: str) -> None:
    """Raises UnsupportedProviderError if there are column families other than the default one."""
    others = sorted(name for name in names if name != _DEFAULT)
    if others:
        raise UnsupportedProviderError(
            f"the store has column families ({', '.join(others)}), which this release only reads",
            path,
            remedy="Read it with Checkpoint, and go on with Spark",
        )


def _content(source: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    with source.open(entry) as content:
        # With a size: read() alone takes memory for all that there is, whatever the entry declares.
        return content.read(entry.file_size + 1)


def _check_entries(entries: Sequence[zipfile.ZipInfo], path: str) -> None:
    _check_once((entry.filename for entry in entries), "has", path)
    for entry in entries:
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise CorruptFileError(
                f"its file {entry.filename!r} has the compression {entry.compress_type}", path, None, REMEDY
            )
        if entry.filename == _METADATA and entry.file_size > _MAX_METADATA:
            raise CorruptFileError(f"its metadata takes {entry.file_size} bytes once decompressed", path, None, REMEDY)
    size = sum(entry.file_size for entry in entries)
    if size > _MAX_BYTES:
        raise CorruptFileError(f"its files take {size} bytes once decompressed", path, None, REMEDY)


def _check_once(names: Iterable[str], verb: str, path: str) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            raise CorruptFileError(f"it {verb} the file {name!r} {count} times", path, None, REMEDY)


def _check_names(names: Iterable[str], path: str) -> None:
    for name in names:
        if not _LOCAL_NAME.fullmatch(name):
            raise CorruptFileError(f"it names a file {name!r}, which no RocksDB has", path, remedy=REMEDY)
