"""The rows that the benchmarks of stateful functions read: Parquet files, one a batch, the same for every side.

`user string, amount bigint, at timestamp`: each user of a batch has the same number of rows, in random order; `at` is
the same in all rows of a batch, and a minute later in each batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.cache import cache_folder, work_folder

SCHEMA = "user string, amount bigint, at timestamp"
START_MS = 1_790_000_000_000
MINUTE_MS = 60_000


@dataclass(frozen=True)
class Events:
    """What a batch has.

    Attributes:
        rows: of a batch.
        users: that have them, `rows` divided by it each.
        known: how many users there are to draw from; 0: those of each batch are new, which is how a state is filled.
    """

    rows: int
    users: int
    known: int

    def file(self, batch: int) -> Path:
        """The rows of a batch; written once, then kept in the cache."""
        made = cache_folder() / f"events-{self.rows}-{self.users}-{self.known}" / f"{batch}.parquet"
        if not made.exists():
            made.parent.mkdir(exist_ok=True)
            with work_folder() as work:
                pq.write_table(self.table(batch), work / "rows.parquet", compression="lz4")
                (work / "rows.parquet").rename(made)
        return made

    def table(self, batch: int) -> pa.Table:
        """The rows of a batch."""
        rng = np.random.default_rng(batch)
        if self.known:
            users = rng.permutation(self.known)[: self.users]
        else:
            users = np.arange(batch * self.users, (batch + 1) * self.users)
        ids = rng.permutation(np.repeat(users, self.rows // self.users))
        # Multiplying modulo a prime spreads the users and keeps them apart.
        spread = pc.cast(pa.array(ids * 48271 % 2147483647), pa.string())
        at = np.full(len(ids), START_MS + batch * MINUTE_MS)
        return pa.table(
            {
                "user": pc.binary_join_element_wise("user", spread, "-"),
                "amount": (ids * 16807 + batch) % 997,
                "at": pa.array(at, pa.timestamp("ms", tz="UTC")).cast(pa.timestamp("us", tz="UTC")),
            }
        )
