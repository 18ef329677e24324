"""`python -m demo`: a real Spark runs a streaming query, hdfsstore opens its checkpoint, and the rows are compared.

Then hdfsstore repairs the query's state, and Spark goes on from that.
"""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession
from rich.console import Console

from demo import compare, spark, stateful
from demo.events import Traffic, write_clicks
from demo.repair import FIRST_DAY, Repairs
from demo.terminal import Teller
from hdfsstore import Checkpoint

FOLDER = Path("build/demo")
LOG = FOLDER / "spark.log"
CHECKPOINT = FOLDER / "checkpoint"
BUSIEST = (
    "select key.user, value.count as clicks, round(value.sum / 60) as minutes, value.max as longest_look "
    "from state order by clicks desc limit 5"
)


def main() -> int:
    """Returns the exit code: 0 when every row is what Spark says."""
    began = time.perf_counter()
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    tell = Teller(Console(highlight=False))
    traffic = FIRST_DAY
    with tell.step("A web shop after its newsletter: a few users are busy, most are not, some clicks come late."):
        clicks = write_clicks(FOLDER / "clicks", traffic)
        tell.say(f"{clicks:,} clicks by up to {traffic.users:,} users in {traffic.files} files, each to be a batch")

    started = time.perf_counter()
    with tell.step("Spark starts, a real one (PySpark, two threads)."):
        session = spark.start(FOLDER, LOG)
        tell.say(f"Spark {session.version}; what it logs goes to {LOG}")
    spark_start = time.perf_counter() - started
    try:
        _run_query(tell, session)
        _open_checkpoint(tell)
        equal = _compare_rows(tell, session)
        equal = _repair(tell, session) and equal
        equal = _run_function(tell, session) and equal
        with tell.step("And the time? The last batch's state, read into Arrow by both in this run:"):
            tell.console.print(compare.time_table(session, CHECKPOINT, spark_start))
            tell.say(compare.WHY_LESS)
    finally:
        session.stop()
    tell.console.print(f"[dim]All in {time.perf_counter() - began:.0f} s. The checkpoint stays in {CHECKPOINT}.[/]")
    return 0 if equal else 1


def _run_query(tell: Teller, session: SparkSession) -> None:
    with tell.step("A streaming query keeps running totals: of each user the clicks, the seconds, the longest look."):
        _run_batches(tell, session)


def _run_batches(tell: Teller, session: SparkSession) -> None:
    query = spark.start_query(spark.totals_by_user(session, FOLDER / "clicks"), CHECKPOINT)
    for progress in spark.batches_of(query):
        state = progress.stateOperators[0]
        tell.say(
            f"batch {progress.batchId}: {progress.numInputRows:,} clicks, {state.numRowsTotal:6,} users in the "
            f"state, {progress.batchDuration / 1000:.1f} s"
        )


def _open_checkpoint(tell: Teller) -> None:
    """The commands that a person would type, without Spark."""
    path = str(CHECKPOINT)
    last = Checkpoint(path).latest_batch_id
    user = _busiest_user()
    with tell.step("The query has stopped. What is in its checkpoint?"):
        tell.command("inspect", path)
    with tell.step("Who are the busiest users in the state, in SQL?"):
        tell.command("sql", path, BUSIEST)
    with tell.step("Who looked at one page for more than twenty minutes?"):
        tell.command("read", path, "--where", "value.max > 1200", "--limit", "5")
    with tell.step(f"What did the state hold of the busiest user, {user}, after each batch?"):
        tell.command("history", path, "--key", f'{{"user": {user}}}')
    with tell.step("What have the last two batches changed?"):
        tell.command("diff", path, "--from", str(last - 2), "--to", str(last), "--limit", "3")


def _busiest_user() -> int:
    """Who has most clicks."""
    state = Checkpoint(CHECKPOINT).read_state().flatten()
    return int(state.sort_by([("value.count", "descending")])["key.user"][0].as_py())


def _compare_rows(tell: Teller, session: SparkSession) -> bool:
    equal = True
    with tell.step("Is it right? Every row after every batch, against Spark's own `statestore` source:"):
        checkpoint = Checkpoint(CHECKPOINT)
        rows = 0
        for batch in checkpoint.batches:
            ours = checkpoint.read_state(batch_id=batch.batch_id)
            difference = compare.rows_differ(ours, spark.read_state(session, CHECKPOINT, batch.batch_id))
            if difference is not None:
                equal = False
                tell.say(f"batch {batch.batch_id} DIFFERS: {difference}")
            rows += len(ours)
        if equal:
            tell.say(f"{rows:,} rows after {len(checkpoint.batches)} batches, all equal to Spark's")
    return equal


def _repair(tell: Teller, session: SparkSession) -> bool:
    """Whether all numbers were right after each repair, and after Spark went on."""
    repairs = Repairs(tell, session, FOLDER / "clicks", CHECKPOINT, lambda: _run_batches(tell, session))
    forgotten = repairs.forget(_busiest_user())
    return repairs.mend(FOLDER) and forgotten


def _run_function(tell: Teller, session: SparkSession) -> bool:
    with tell.step("A stateful function of a user's own, in Python: on Spark's API, and unchanged on hdfsstore.spark."):
        traffic = Traffic(files=4, minutes=5, visits=3_000, users=20_000)
        count = write_clicks(FOLDER / "few-clicks", traffic)
        tell.say(f"{count:,} clicks in {traffic.files} batches; the function keeps each user's clicks and seconds")
        runs = stateful.run_both(session, FOLDER / "few-clicks", FOLDER / "stateful")
        tell.console.print(stateful.speed_table(runs))
        tell.say(stateful.WHY_LESS)
        equal = all(run.batches == runs["Spark"].batches for run in runs.values())
        tell.say("Every batch gave the same rows." if equal else "The rows DIFFER.")
    with tell.step("Its state lies beside Spark's checkpoint, for all the same commands:"):
        path = str(FOLDER / "stateful" / "hdfsstore" / "hdfsstore")
        tell.command("sql", path, "select count(*) as users, sum(value.groupState.clicks) as clicks from state")
    return equal


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Exception:
        print(f"The demo failed; what Spark logged is in {LOG}", file=sys.stderr)
        raise
