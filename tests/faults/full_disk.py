"""Repairs on a disk that is full: python -m tests.faults.full_disk FOLDER CASE, in a mount namespace of its own.

The disk is a small tmpfs that only this process sees. Each repair is tried with no page free, with one, with two, and
so on until it gets through. After each error there is space again, and a second run ends the work, or an undo takes it
back. Prints how often the checkpoint was as before, was whole, or had a guard after an error.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hdfsstore import Checkpoint
from hdfsstore.errors import StateStoreError
from hdfsstore.repair import Edit, Limits, convert, edit, fork, repartition, rewind, undo
from tests.support.truth import DATA
from tests.unit.repair.folders import content, records, swapped

Verb = Callable[[Path], Any]
PAGE = os.sysconf("SC_PAGESIZE")
SIZE = 8 << 20
# More pages than any of the repairs takes.
MOST = 1000


class Disk:
    """The disk, and a file that takes up its space."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(folder)], check=True)
        self.folder = folder
        self._filler = folder / "filler"

    def fill(self, free: int) -> None:
        """Leaves so many pages free."""
        with self._filler.open("wb", buffering=0) as file:
            size = os.fstatvfs(file.fileno()).f_bfree * PAGE
            os.posix_fallocate(file.fileno(), 0, size - free * PAGE)

    def empty(self) -> None:
        self._filler.unlink()


def checked(error: StateStoreError) -> None:
    """It says what to do, and names a file."""
    assert "No space left on device" in str(error), error
    assert "Free space" in str(error.remedy), error
    assert error.path


def same_for_all_runs(files: dict[str, bytes]) -> dict[str, bytes]:
    """Without what has another unique id in each run."""
    return {name: data for name, data in files.items() if name.startswith(("offsets/", "sources/"))}


def tried(disk: Disk, begin: Path, verb: Verb, after: Callable[[Path, int], str]) -> Counter[str]:
    """Tries a verb with ever more space.

    Args:
        begin: what is on the disk before.
        after: looks at the disk after an error, and ends the work; the number of the try tells how.
    """
    seen: Counter[str] = Counter()
    root = disk.folder / "checkpoint"
    for free in range(MOST):
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(begin, root)
        disk.fill(free)
        try:
            verb(root)
        except StateStoreError as error:
            checked(error)
            disk.empty()
            seen[after(root, free)] += 1
        else:
            disk.empty()
            return seen
    raise AssertionError("it never gets through")


def in_place(disk: Disk, work: Path, begin: Path, verb: Verb) -> Counter[str]:
    ended = shutil.copytree(begin, work / "ended")
    verb(ended)
    old, new, newest = content(begin), same_for_all_runs(content(ended)), Checkpoint(ended).latest_batch_id
    state = records(ended, newest)
    shutil.rmtree(ended)

    def after(root: Path, number: int) -> str:
        kind = "guarded" if Checkpoint(root).repair is not None else "old" if content(root) == old else "new"
        if kind == "old" or number % 2:
            verb(root)
            assert same_for_all_runs(content(root)) == new
            assert records(root, newest) == state
        undo(root)
        assert content(root) == old
        return kind

    return tried(disk, begin, verb, after)


def undone(disk: Disk, work: Path, begin: Path, verb: Verb) -> Counter[str]:
    old, changed = content(begin), shutil.copytree(begin, work / "changed")
    verb(changed)
    new = content(changed)

    def after(root: Path, _: int) -> str:
        kind = "guarded" if Checkpoint(root).repair is not None else "old" if content(root) == new else "new"
        undo(root)
        assert content(root) == old
        return kind

    return tried(disk, changed, undo, after)


def to_new(disk: Disk, work: Path, source: Path, verb: Callable[[Path, Path], Any]) -> Counter[str]:
    newest = Checkpoint(source).latest_batch_id
    empty, before = work / "empty", content(source)
    empty.mkdir()
    verb(source, work / "whole")
    state = records(work / "whole", newest)

    def after(root: Path, _: int) -> str:
        kind = "old" if not content(root) else "guarded" if Checkpoint(root).repair is not None else "new"
        verb(source, root)
        assert records(root, newest) == state
        assert content(source) == before
        return kind

    return tried(disk, empty, lambda root: verb(source, root), after)


def spilled(disk: Disk, work: Path, source: Path) -> Counter[str]:
    """What does not fit into the memory goes to the disk; the new checkpoint is on another one."""
    empty, new = work / "none", work / "new"
    empty.mkdir()

    def verb(_: Path) -> None:
        shutil.rmtree(new, ignore_errors=True)
        repartition(source, new, 3, limits=Limits(1, str(disk.folder)))

    def after(_: Path, __: int) -> str:
        assert list(disk.folder.iterdir()) == [disk.folder / "checkpoint"], "temporary files stay"
        return "old" if not content(new) else "guarded" if Checkpoint(new).repair is not None else "new"

    return tried(disk, empty, verb, after)


def main(folder: Path, case: str) -> None:
    disk = Disk(folder / "disk")
    begin = DATA / "spark-4.3.0" / case / "checkpoint"
    rows = swapped(Checkpoint(begin).read_state(unique_names=True))
    provider = "hdfs" if case.startswith("rocksdb") else "rocksdb"
    verbs: dict[str, Verb] = {
        "repartition": lambda root: repartition(root, None, 3),
        "convert": lambda root: convert(root, None, provider),
        "edit": lambda root: edit(root, None, Edit(rows=rows)),
        "rewind": lambda root: rewind(root, 1, sink_accepts_batches_again=True),
        "rewind --continue-numbers": lambda root: rewind(root, 1, continue_numbers=True),
    }
    seen: dict[str, Counter[str]] = {}
    for name, verb in verbs.items():
        seen[name] = in_place(disk, folder_of(folder, name), begin, verb)
    for name in ("repartition", "rewind"):
        seen[f"undo of {name}"] = undone(disk, folder_of(folder, f"undo of {name}"), begin, verbs[name])
    seen["fork"] = to_new(disk, folder_of(folder, "fork"), begin, fork)
    seen["rewrite"] = to_new(
        disk, folder_of(folder, "rewrite"), begin, lambda old, new: convert(old, new, provider, keep_query_id=True)
    )
    seen["spill"] = spilled(disk, folder_of(folder, "spill"), begin)
    print(json.dumps(seen))


def folder_of(folder: Path, name: str) -> Path:
    work = folder / name
    work.mkdir()
    return work


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
