"""Queries that run whole, once for all tests, and copies of their checkpoints as if they had been stopped."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from hdfsstore import Checkpoint
from hdfsstore.checkpoint.parts import parts_of_operator
from hdfsstore.codecs.records import RecordChunk
from hdfsstore.codecs.rocksdb_keys import family_prefix
from hdfsstore.state.rocksdb.partition_reader import RocksDbPartitionReader
from tests.data.generate import cases, rocksdb_cases, transform_cases  # noqa: F401 - they register their cases
from tests.data.generate.case import CASES, Inputs, Query
from tests.data.generate.truth import Read, by_place, to_arrow
from tests.data.generate.write import stop_after
from tests.support.rows import comparable, counted

Outputs = dict[int, Counter[str]]
States = dict[tuple[int, str], Counter[str]]


@dataclass(frozen=True)
class Whole:
    """A query that was never stopped.

    Attributes:
        name: of its case.
        query: the query, which may be started on other checkpoints.
        confs: that it needs.
        checkpoint: its checkpoint.
        outputs: the rows that each batch gave.
    """

    name: str
    query: Query
    confs: Mapping[str, str]
    checkpoint: Path
    outputs: Outputs

    @property
    def middle(self) -> int:
        """A batch at which it may be stopped."""
        return middle_of(self.checkpoint)

    def stopped(self, batch_id: int, to: Path) -> Path:
        """A copy of the checkpoint in which this batch is the last one that was begun."""
        return stopped(self.checkpoint, batch_id, to)

    def goes_on(self, spark: SparkSession, checkpoint: Path, confs: Mapping[str, str] | None = None) -> Outputs:
        """Starts the query on a checkpoint. Returns the rows of each batch, until there is no input left."""
        with configured(spark, {**self.confs, **(confs or {})}):
            return run(self.query, checkpoint)


def middle_of(checkpoint: Path) -> int:
    """A batch after which there is input left: without, Spark runs no further batch at a restart."""
    return min(1, len(list(checkpoint.glob("sources/0/[0-9]*"))) - 2)


def stopped(checkpoint: Path, batch_id: int, to: Path) -> Path:
    """A copy of a checkpoint in which this batch is the last one that was begun."""
    shutil.copytree(checkpoint, to)
    for path in [*to.glob("offsets/*"), *to.glob("commits/*"), *to.glob("sources/*/*")]:
        named = re.fullmatch(r"\.?(\d+)(\.crc)?", path.name)
        if named and int(named[1]) > batch_id:
            path.unlink()
    return to


class Wholes:
    """Runs each case of tests/data/generate when it is asked for first."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self._folder = folder
        self._ran: dict[str, Whole] = {}

    def __getitem__(self, name: str) -> Whole:
        if name not in self._ran:
            case, folder = CASES[name], self._folder / name
            with configured(self._spark, case.confs):
                query = case.build(Inputs(self._spark, folder / "input"))
                outputs = run(query, folder / "checkpoint")
            self._ran[name] = Whole(name, query, case.confs, folder / "checkpoint", outputs)
        return self._ran[name]


@contextmanager
def configured(spark: SparkSession, confs: Mapping[str, str]) -> Iterator[None]:
    """Settings of the session for a while."""
    before = {name: spark.conf.get(name, None) for name in confs}
    for name, value in confs.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


def run(query: Query, checkpoint: Path) -> Outputs:
    """The rows that each batch gives, until there is no input left.

    In processing time batches come without end: there it stops after those that have input.
    """
    outputs: Outputs = {}

    def sink(batch: DataFrame, batch_id: int) -> None:
        outputs[batch_id] = counted(batch.toArrow())

    writer = query.frame.writeStream.foreachBatch(sink).outputMode(query.mode)
    writer = writer.option("checkpointLocation", str(checkpoint))
    if query.batches is None:
        running = writer.trigger(availableNow=True).start()
    else:
        running = writer.trigger(processingTime="0 seconds").start()
        stop_after(running, checkpoint / f"commits/{query.batches - 1}")
    running.awaitTermination()
    return outputs


def states(checkpoint: Path, batch_id: int | None = None) -> States:
    """The rows of every store after a batch, wherever they lie. Those of stores with families are raw bytes."""
    opened = Checkpoint(checkpoint)
    found: States = {}
    for operator in opened.operators:
        state = opened.operator_state(operator.operator_id, batch_id)
        for store in state.operator.stores:
            where = operator.operator_id, store.name
            if not store.has_families:
                found[where] = counted(opened.read_state(*where, batch_id).drop_columns("partition_id"))
                continue
            found[where] = Counter()
            for partition_id in store.partition_ids:
                for chunk in state.files(store, partition_id).stream(state.version, RecordChunk.copy):
                    found[where].update(map(repr, _raw(chunk)))
    return found


def read_alike(spark: SparkSession, checkpoint: Path) -> None:
    """Spark's `statestore` source and Checkpoint read the same rows of each store, state variable, timers and side."""
    opened = Checkpoint(checkpoint)
    for operator in opened.operators:
        for part in parts_of_operator(operator):
            read = Read(
                operator.operator_id,
                part.arguments.get("store_name", "default"),
                opened.latest_batch_id,
                join_side=part.arguments.get("join_side"),
                state_variable=part.arguments.get("state_var"),
                timers=part.arguments.get("read_registered_timers", False),
            )
            frame = read.frame(spark, checkpoint).drop("key_hash")
            theirs = to_arrow(by_place(frame), frame.schema)
            ours = opened.read_state(operator.operator_id, **part.arguments)
            assert counted(comparable(ours)) == counted(comparable(theirs)), (operator.operator_id, part.name)


def placed(checkpoint: Path) -> dict[tuple[int, str, int], Counter[str]]:
    """The raw rows of each partition of each store that has some, with the names of families for their numbers."""
    opened = Checkpoint(checkpoint)
    found: dict[tuple[int, str, int], Counter[str]] = {}
    for operator in opened.operators:
        state = opened.operator_state(operator.operator_id)
        for store in state.operator.stores:
            for partition_id in store.partition_ids:
                files = state.files(store, partition_id)
                families = files.families(state.version) if isinstance(files, RocksDbPartitionReader) else {}
                names = {family_prefix(number): name for name, number in families.items()} if store.has_families else {}
                rows = Counter[str]()
                for chunk in files.stream(state.version, RecordChunk.copy):
                    for key, value in _raw(chunk):
                        rows[repr((names[key[:2]], key[2:], value) if names else (key, value))] += 1
                if rows:
                    found[operator.operator_id, store.name, partition_id] = rows
    return found


def _raw(chunk: RecordChunk) -> Iterator[tuple[bytes, bytes]]:
    spans = [memoryview(each).cast("B").cast("i") for each in (chunk.keys, chunk.values)]
    for i in range(len(chunk)):
        key, value = (bytes(chunk.data[s[2 * i] : s[2 * i] + s[2 * i + 1]]) for s in spans)
        yield key, value
