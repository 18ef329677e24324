"""State files of checkpoint format 2 made by hand, so that what is read does not hang on what our own writer does."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa

from hdfsstore._cext.records import encode_records
from hdfsstore.codecs.compression import compress
from tests.support.partition import Ref

CODEC = "lz4"


def unique_id(short: str) -> str:
    """The whole id behind the eight digits that the design shows."""
    return f"{short}-1111-4222-8333-444444444444"


def version_id(name: str) -> Ref:
    """`23_689aa6bd` as version and id."""
    version, _, short = name.partition("_")
    return int(version), unique_id(short)


class HandMade:
    """Files that tell which of them were read: each holds one row, whose key is its own name as the design has it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)

    def delta(self, name: str, *lineage: str) -> Path:
        """`<version>_<id>.delta`, which puts its own name, with the names in its lineage, the oldest first."""
        return self.delta_of(version_id(name), [version_id(item) for item in lineage], {f"{name}.delta".encode(): b""})

    def delta_of(self, written: Ref, lineage: list[Ref], updates: dict[bytes, bytes | None]) -> Path:
        items = [{"version": version, "checkpointUniqueId": unique} for version, unique in lineage]
        header = _utf("v3") + _utf(json.dumps(items, separators=(",", ":")))
        return self._write(written, "delta", header + _records(updates))

    def snapshot(self, name: str, *names: str) -> Path:
        """`<version>_<id>.snapshot`, which holds its own name, or the names given."""
        rows: dict[bytes, bytes | None] = {each.encode(): b"" for each in names or (f"{name}.snapshot",)}
        return self._write(version_id(name), "snapshot", _records(rows))

    def _write(self, written: Ref, kind: str, content: bytes) -> Path:
        path = self.folder / f"{written[0]}_{written[1]}.{kind}"
        path.write_bytes(compress(CODEC, content))
        return path


def _records(updates: dict[bytes, bytes | None]) -> bytes:
    keys, values = pa.array(updates, pa.binary()), pa.array(updates.values(), pa.binary())
    return bytes(encode_records(keys, values))


def _utf(text: str) -> bytes:
    return len(text).to_bytes(2, "big") + text.encode()
