"""Copies of checkpoints of tests/data: with more partitions, and with batches that come one after the other."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from tests.support.truth import DATA


def of_many_partitions(folder: Path, partitions: int) -> Path:
    """A checkpoint whose store has so many partitions: those of an aggregation, again and again."""
    copy = Path(shutil.copytree(DATA / "spark-4.3.0/snapshots/checkpoint", folder / "checkpoint"))
    metadata = copy / "state/0/_metadata/metadata"
    for file in (metadata, *copy.glob("offsets/[0-9]*")):
        text = file.read_text("utf-8")
        wider = re.sub(r'(numPartitions":|shuffle\.partitions":")2', rf"\g<1>{partitions}", text)
        assert wider != text
        file.write_text(wider, "utf-8")
        (file.parent / f".{file.name}.crc").unlink()
    for number in range(2, partitions):
        shutil.copytree(copy / f"state/0/{number % 2}", copy / f"state/0/{number}")
    return copy


class Replayed:
    """A checkpoint whose batches begin and are committed when a test says so. Its state is there from the start.

    Args:
        whole: the checkpoint that has them all.
        path: where the copy is made.
    """

    def __init__(self, whole: Path, path: Path) -> None:
        self.path = path
        self._whole = whole
        shutil.copytree(whole, path, ignore=shutil.ignore_patterns("offsets", "commits"))
        for log in ("offsets", "commits"):
            (path / log).mkdir()

    def begin(self, batch_id: int) -> None:
        self._add("offsets", batch_id)

    def commit(self, *batch_ids: int) -> None:
        """Begins batches, and commits them."""
        for batch_id in batch_ids:
            self.begin(batch_id)
            self._add("commits", batch_id)

    def _add(self, log: str, batch_id: int) -> None:
        for name in (f".{batch_id}.crc", str(batch_id)):
            if (self._whole / log / name).exists():
                # Whole or not at all, as Spark writes it.
                unfinished = Path(shutil.copy(self._whole / log / name, self.path / log / f".{batch_id}.tmp"))
                unfinished.rename(self.path / log / name)
