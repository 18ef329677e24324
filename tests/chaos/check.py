"""What must be there after a history: the output by batch, and the state, as the model has them."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from hdfsstore import Checkpoint
from tests.chaos import log
from tests.chaos.functions import DELAY, Model

Rows = list[tuple[int, int, int]]


class Sunk:
    """The rows of two sinks, one that replaces its rows by batch id and one that appends; or of our parquet sink."""

    def __init__(self, folder: Path, *, is_parquet: bool = False) -> None:
        self.folder = folder
        self.is_parquet = is_parquet

    def append(self, batch_id: int, rows: Any) -> None:
        with (self.folder / "appended").open("a") as file:
            file.write("".join(json.dumps([batch_id, *row]) + "\n" for row in rows))

    def replace(self, batch_id: int, rows: Any | None) -> None:
        """None: the sink has not seen all rows."""
        path = self.folder / f"{batch_id}.json"
        new = self.folder / f"{batch_id}-{os.urandom(8).hex()}.new"
        new.write_text(json.dumps(rows))
        new.replace(path)

    def rows(self, batch_id: int) -> Rows | None:
        """Sorted; None: there is nothing to compare."""
        if self.is_parquet:
            table = pq.read_table(self.folder / f"batch={batch_id}", partitioning=None)
            return sorted(zip(*(table[name].to_pylist() for name in ("user", "n", "total")), strict=True))
        found = json.loads((self.folder / f"{batch_id}.json").read_text())
        return None if found is None else sorted(map(tuple, found))

    def appended(self) -> set[tuple[int, ...]]:
        path = self.folder / "appended"
        return {tuple(json.loads(line)) for line in path.read_text().splitlines()} if path.exists() else set()


def check(location: str, checkpoint: Any, sunk: Sunk, timeouts: str, chance: random.Random) -> None:
    """AssertionError: something is not what the model has.

    Args:
        location, checkpoint: the URI and the path of the checkpoint.
    """
    model = Model(timeouts)
    batches = list(log.batches(checkpoint))
    read_again = chance.randrange(len(batches))
    appended = sunk.appended()
    late, newest = 0, 0
    for i, batch in enumerate(batches):
        assert batch.number == i, f"Spark's log lacks batch {i}"
        if timeouts == "EventTimeTimeout":
            assert batch.watermark == max(0, newest - DELAY), f"batch {i} has the watermark {batch.watermark}"
        rows = [
            (row["user"], row["v"], row["ms"])
            for file in batch.files
            for row in map(json.loads, file.read_text().splitlines())
        ]
        expected = model.batch(rows, late, batch.watermark, batch.time)
        found = sunk.rows(i)
        if found is not None:
            assert found == expected, f"output of batch {i}: {found}, not {expected}"
            missing = {(i, *row) for row in expected} - appended
            assert sunk.is_parquet or not missing, f"batch {i}: never appended: {sorted(missing)}"
        if i == read_again or batch is batches[-1]:
            kept = state(location, i)
            assert kept == model.rows(), f"state after batch {i}: {kept}, not {model.rows()}"
        late = batch.watermark
        newest = max([newest, *(ms for _, _, ms in rows)])
    assert (checkpoint / "commits" / str(batches[-1].number)).exists(), "the last batch is not committed"


def state(location: str, batch_id: int) -> dict[int, tuple[int, int, int]]:
    """user -> (n, total, timeout; -1: none)."""
    table = Checkpoint(f"{location}/hdfsstore").read_state(batch_id=batch_id)
    return {
        row["key"]["user"]: (*row["value"]["groupState"].values(), row["value"].get("timeoutTimestamp", -1))
        for row in table.to_pylist()
    }
