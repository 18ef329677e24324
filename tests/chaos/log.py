"""Spark's log of a query: which input each batch had, and how it is set back.

A checkpoint is a path as of pathlib (storage.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse


@dataclass(frozen=True)
class Batch:
    """A batch as Spark's offset log has it; times in milliseconds."""

    number: int
    files: tuple[Path, ...]
    watermark: int
    time: int


def batches(checkpoint: Any) -> Iterator[Batch]:
    """All batches of a query whose first source is files, in order."""
    files: dict[int, set[Path]] = {}
    for path in _entries(checkpoint / "sources" / "0"):
        for line in path.read_text().splitlines()[1:]:
            entry = json.loads(line)
            files.setdefault(entry["batchId"], set()).add(Path(unquote(urlparse(entry["path"]).path)))
    read = -1
    for path in sorted(_entries(checkpoint / "offsets"), key=number):
        _, metadata, offset, *_ = path.read_text().splitlines()
        until = read if offset == "-" else json.loads(offset)["logOffset"]
        new = sorted(file for i in range(read + 1, until + 1) for file in files.get(i, ()))
        read = until
        about = json.loads(metadata)
        yield Batch(number(path), tuple(new), about["batchWatermarkMs"], about["batchTimestampMs"])


def last_batch(checkpoint: Any) -> int:
    """-1: there is none."""
    return max((number(path) for path in _entries(checkpoint / "offsets")), default=-1)


def set_back(checkpoint: Any, batch: int, *logs: str) -> None:
    """Deletes the entries from a batch on: of offsets and commits a rewind, of the last commit a replay."""
    for log in logs:
        for path in list((checkpoint / log).glob("*")):
            if number(path) >= batch:
                path.unlink()


def remove_unfinished(checkpoint: Any) -> None:
    """Deletes what a query that was stopped was writing: Spark does not begin with batch 0 beside it."""
    for path in list((checkpoint / "offsets").glob(".*.tmp*")):
        path.unlink(missing_ok=True)


def number(path: Any) -> int:
    """Of the entry 7, 7.compact or .7.crc; -1 for other files."""
    name = path.name.strip(".").split(".")[0]
    return int(name) if name.isdigit() else -1


def _entries(folder: Any) -> list[Any]:
    return [path for path in folder.glob("*") if path.name[0] != "." and number(path) >= 0]
