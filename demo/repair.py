"""The demo's repairs: a user is forgotten, a bad batch is taken back, keys are set right, partitions change.

After each of them Spark goes on, and every number is compared with what the clicks themselves say.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from demo import compare, spark, totals
from demo.events import Traffic, write_clicks
from demo.terminal import Teller
from hdfsstore import Checkpoint

PARTITIONS = 10
FIRST_DAY = Traffic()
# Files 6 and 7 come after the user is forgotten, file 8 is the bad one, file 9 comes after the repairs.
MORE = Traffic(files=2, first=FIRST_DAY.files, visits=5_000, seed=43)
BAD = Traffic(files=1, first=MORE.first + MORE.files, visits=5_000, seed=44)
LAST = Traffic(files=1, first=BAD.first + 1, visits=5_000, seed=45)


class Repairs:
    """The checkpoint of the query that reads `clicks`, and the totals that its state has to hold."""

    def __init__(
        self, tell: Teller, session: SparkSession, clicks: Path, checkpoint: Path, run_batches: Callable[[], None]
    ) -> None:
        self._tell = tell
        self._session = session
        self._clicks = clicks
        self._checkpoint = checkpoint
        self._run_batches = run_batches
        self._expected = totals.of_files(sorted(clicks.iterdir()))

    def forget(self, user: int) -> bool:
        """Removes the user, and lets Spark read and continue that. Returns whether all numbers are right."""
        path = str(self._checkpoint)
        with self._tell.step(f"User {user} wants to be forgotten: one row less, as a batch that Spark goes on from."):
            self._tell.command("edit", path, "--remove", f"key.user = {user}", "--in-place")
            last = Checkpoint(path).latest_batch_id
            self._tell.command("diff", path, "--from", str(last - 1), "--to", str(last))
            self._expected = totals.without(self._expected, user)
            right = self._is_right()
        with self._tell.step("Two more files of clicks: Spark's query starts again, on top of that."):
            self._expected = totals.added(self._expected, totals.of_files(self._write(MORE)))
            self._run_batches()
            return self._is_right() and right

    def mend(self, folder: Path) -> bool:
        """Takes a bad batch back, sets three keys right, changes the partitions. A file of rows goes to `folder`."""
        path = str(self._checkpoint)
        good = Checkpoint(path).latest_batch_id
        with self._tell.step("A bad release: the shop's page counts milliseconds as seconds, and the query adds them."):
            [bad] = self._write(BAD)
            mended = pq.read_table(bad)
            seconds = mended.schema.get_field_index("seconds")
            pq.write_table(
                mended.set_column(seconds, mended.schema.field(seconds), pc.multiply(mended["seconds"], 1000)), bad
            )
            self._run_batches()
            self._tell.command("read", path, "--where", "value.max > 86400", "--limit", "3")
        with self._tell.step(f"The batches after {good} never happened, and the file is mended:"):
            self._tell.command("rewind", path, "--to-batch", str(good), "--sink-accepts-batches-again")
            right = self._is_right()
            pq.write_table(mended, bad)
        with self._tell.step(
            "The clicks of three users were counted twice: halves of them to a file, and from there into the state."
        ):
            self._halve(self._busiest(3), folder / "halves.parquet")
        with self._tell.step(f"4 partitions become {PARTITIONS}:"):
            self._tell.command("repartition", path, "--partitions", str(PARTITIONS), "--in-place")
        with self._tell.step("Spark goes on, with the mended file and a new one. Are the numbers right?"):
            self._expected = totals.added(self._expected, totals.of_files([bad, *self._write(LAST)]))
            self._run_batches()
            used = "select count(*) as users, sum(value.count) as clicks, count(distinct partition_id) as partitions"
            self._tell.command("sql", path, f"{used} from state")
            right = self._is_right() and right
            partitions = len(pc.unique(Checkpoint(path).read_state()["partition_id"]))
            if partitions != PARTITIONS:
                self._tell.say(f"The rows are in {partitions} partitions, NOT in {PARTITIONS}")
            return right and partitions == PARTITIONS

    def _busiest(self, count: int) -> list[int]:
        state = totals.of_state(Checkpoint(self._checkpoint).read_state())
        users: list[int] = state.sort_by([("count", "descending")])["user"][:count].to_pylist()
        return users

    def _halve(self, users: list[int], file: Path) -> None:
        path = str(self._checkpoint)
        halves = "struct_pack(count := value.count // 2, sum := value.sum // 2, max := value.max)"
        those = ", ".join(map(str, users))
        query = f"select key, {halves} as value, partition_id from state where key.user in ({those})"
        self._tell.command("sql", path, query, "-o", str(file))
        self._tell.command("edit", path, "--set", str(file), "--in-place")
        self._expected = totals.halved(self._expected, users)

    def _write(self, traffic: Traffic) -> list[Path]:
        """The files of these clicks, written."""
        write_clicks(self._clicks, traffic)
        return [self._clicks / f"clicks-{traffic.first + file:03}.parquet" for file in range(traffic.files)]

    def _is_right(self) -> bool:
        """Whether the state is what the clicks say, and Spark reads the same."""
        state = Checkpoint(self._checkpoint).read_state()
        wrong = totals.differ(state, self._expected)
        wrong = wrong or compare.rows_differ(state, spark.read_state(self._session, self._checkpoint))
        if wrong is not None:
            self._tell.say(f"The numbers are WRONG: {wrong}")
            return False
        self._tell.say(f"{len(state):,} users: every number is what the clicks say, and Spark reads the same")
        return True
