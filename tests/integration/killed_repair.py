"""Repairs a checkpoint, and kills its own process at a call that writes: python -m tests.integration.killed_repair.

The job comes as JSON on stdin: `uri` and `storage_options` of the checkpoint, `partitions` (none: undo), `at`, the
number of the call, and `when`: before it, halfway through it, or after it.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from typing import Any

from hdfsstore.fs.hdfs.hdfs_files import HdfsFileManager
from hdfsstore.fs.s3.s3_files import S3FileManager
from hdfsstore.repair import repartition, undo

KILLED = 9
WHENS = ("before", "halfway", "after")


def _die() -> None:
    os._exit(KILLED)


def _cut(content: Iterable[Any]) -> Iterator[Any]:
    for piece in content:
        yield piece[: len(piece) // 2]
        _die()


def _dying(call: Callable[..., None], is_the_one: Callable[[], bool], when: str) -> Callable[..., None]:
    def write(self: Any, path: str, content: Iterable[Any]) -> None:
        one = is_the_one()
        if one and when == "before":
            _die()
        call(self, path, _cut(content) if one and when == "halfway" else content)
        if one:
            _die()

    def delete(self: Any, paths: Sequence[str]) -> None:
        one = is_the_one()
        if one and when == "before":
            _die()
        call(self, paths[: len(paths) // 2] if one and when == "halfway" else paths)
        if one:
            _die()

    return delete if call.__name__ == "delete" else write


def main() -> None:
    job = json.load(sys.stdin)
    calls, lock = count(1), threading.Lock()

    def is_the_one() -> bool:
        with lock:
            return next(calls) == job["at"]

    for kind in (HdfsFileManager, S3FileManager):
        for name in ("create", "replace", "write_unique", "delete"):
            setattr(kind, name, _dying(getattr(kind, name), is_the_one, job["when"]))
    if job["partitions"]:
        repartition(job["uri"], None, job["partitions"], storage_options=job["storage_options"])
    else:
        undo(job["uri"], storage_options=job["storage_options"])


if __name__ == "__main__":
    main()
