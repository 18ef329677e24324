"""Tells what is in `sources/<n>`, which a rewind keeps: what sources have noted there does not go by batches. In offset
log version 2, n is the name of the source.

file source     <k>, <k>.compact    v1, then a JSON object with path, timestamp and batchId a line; k goes by offset
Kafka           0                   a zero byte, then v1 and the offsets at which the query began
rate            0                   v1 and a number: the time at which the query began
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable

from pyarrow.fs import FileType

from hdfsstore.errors import RepairError
from hdfsstore.fs.file_manager import FileManager
from hdfsstore.fs.reading import read_file

COMPACT = ".compact"
ENTRY = re.compile(r"(\d{1,18})(?:\.compact)?", re.ASCII)
FILE_FIELDS = frozenset({"path", "timestamp", "batchId"})
_SIDE_OR_TEMPORARY = re.compile(r"\..+\.(?:crc|tmp)|.+\.crc")
_START = b"v1\n"


def check_known(fs: FileManager, root: str) -> None:
    """Raises RepairError if a source has noted something that this release does not know."""
    for source in fs.list_folder(f"{root}/sources"):
        if source.type != FileType.Directory:
            continue
        names = []
        for info in fs.list_folder(source.path):
            if _SIDE_OR_TEMPORARY.fullmatch(info.base_name):
                continue
            if info.type != FileType.File or not ENTRY.fullmatch(info.base_name):
                raise _unknown(info.path)
            names.append(info.base_name)
        if names:
            newest = max(names, key=lambda name: int(name.partition(".")[0]))
            path = f"{source.path}/{newest}"
            if not is_known(read_file(fs, path), names):
                raise _unknown(path)


def reads_kafka(offsets: Iterable[str | None]) -> bool:
    """Whether one of these offsets is Kafka's: topic -> partition -> offset."""
    return any(offset is not None and _is_kafka(offset) for offset in offsets)


def is_known(content: bytes, names: Collection[str]) -> bool:
    """Whether an entry, of those with these names, is of a source that is known. Of many lines the first one tells."""
    if content.startswith(b"\0" + _START) or (names == ["0"] and _is_kafka(content.removeprefix(_START))):
        return True
    if not content.startswith(b"v1"):
        return False
    lines = content.split(b"\n")[1:]
    if len(lines) == 1 and re.fullmatch(rb"-?\d+", lines[0].strip()):
        return True
    try:
        entries = [json.loads(line) for line in lines[:1] if line.strip()]
    except ValueError:
        return False
    return all(isinstance(entry, dict) and entry.keys() >= FILE_FIELDS for entry in entries)


def _is_kafka(text: str | bytes) -> bool:
    try:
        topics = json.loads(text)
    except ValueError:
        return False
    return (
        isinstance(topics, dict)
        and bool(topics)
        and all(
            isinstance(partitions, dict)
            and bool(partitions)
            and all(number.isdecimal() and type(offset) is int for number, offset in partitions.items())
            for partitions in topics.values()
        )
    )


def _unknown(path: str) -> RepairError:
    return RepairError(
        "a source has noted this, and this release does not know whether it still holds when batches are run again",
        path,
        remedy="Start the query on a fork of the checkpoint at that batch (hdfsstore fork), which keeps the original",
    )
