"""The checkpoints of bench.big_state's query with its state in RocksDB: zips, SST files and changelogs of Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from bench.big_state import add_events, spark_session, start
from bench.cache import cache_folder, work_folder
from hdfsstore.state.rocksdb.archive import SST_FOLDER, decode

_PREFIX = "spark.sql.streaming.stateStore."
_PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


@dataclass(frozen=True)
class Layout:
    """What the last version is made of.

    Attributes:
        runs: so many sorted runs of SST files. Each holds its part of the keys, drawn from all over their range.
        changelogs: so many on top, each with one key in 100.
    """

    name: str
    runs: int = 1
    changelogs: int = 0


ONE_RUN = Layout("rocksdb-one-run")
FOUR_RUNS = Layout("rocksdb-four-runs", runs=4)
CHANGELOGS = Layout("rocksdb-changelogs", changelogs=8)


def checkpoint(layout: Layout, num_keys: int) -> Path:
    """A checkpoint of that many keys; made once, then kept in the cache."""
    made = cache_folder() / f"{layout.name}-{num_keys}"
    if not made.exists():
        with work_folder() as work:
            _run_query(work, layout, num_keys)
            (work / "checkpoint").rename(made)
    return made


def sst_files(path: Path) -> list[Path]:
    """The SST files of all partitions that the newest zips name."""
    files = []
    for folder in sorted((path / "state" / "0").glob("[0-9]*")):
        newest = max(folder.glob("*.zip"), key=lambda file: int(file.stem))
        ssts = decode(newest.read_bytes(), str(newest)).ssts
        files += [folder / SST_FOLDER / sst.remote for sst in ssts]
    return files


def _run_query(work: Path, layout: Layout, num_keys: int) -> None:
    """The first run is compacted. Three files more do not make RocksDB compact them of itself."""
    spark = spark_session()
    parts = [(layout.runs, part) for part in range(layout.runs)]
    small = [(100, None)] * layout.changelogs
    batch = 0
    for draws, compact, changelogs in ((parts[:1], True, False), (parts[1:], False, False), (small, False, True)):
        for every, part in draws:
            add_events(spark, work, num_keys, batch, every, part)
            batch += 1
        if draws:
            with _confs(spark, compact, changelogs):
                start(spark, work, min_deltas_for_snapshot=1000, stop_at_end=True).awaitTermination()


@contextmanager
def _confs(spark: SparkSession, compact: bool, changelogs: bool) -> Iterator[None]:
    confs: Mapping[str, str | bool] = {
        f"{_PREFIX}providerClass": _PROVIDER,
        f"{_PREFIX}rocksdb.compactOnCommit": compact,
        f"{_PREFIX}rocksdb.changelogCheckpointing.enabled": changelogs,
    }
    for name, value in confs.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in confs:
            spark.conf.unset(name)
