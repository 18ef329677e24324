"""`format("hdfsstore")` beside Spark's `statestore`, and beside a source whose batches were decoded beforehand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType
from pytest_benchmark.fixture import BenchmarkFixture

import hdfsstore
from bench import big_state
from bench.report import Report
from bench.side_by_side import side_by_side


def decoded_source(folder: Path, schema: StructType) -> type[DataSource]:
    """Reads batches from memory-mapped Arrow files, a partition each. A class that is made here is pickled whole."""

    class Reader(DataSourceReader):
        def partitions(self) -> list[InputPartition]:
            return [InputPartition(str(path)) for path in sorted(folder.glob("*.arrow"))]

        def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
            with pa.memory_map(partition.value) as file:
                yield from pa.ipc.open_stream(file)

    class Decoded(DataSource):
        @classmethod
        def name(cls) -> str:
            return "decoded"

        def schema(self) -> StructType:
            return schema

        def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - it is that of schema()
            return Reader()

    return Decoded


def test_source(
    benchmark: BenchmarkFixture,
    checkpoint: Path,
    spark: SparkSession,
    report: Report,
    num_keys: int,
    rounds: int,
    tmp_path: Path,
) -> None:
    opened = hdfsstore.Checkpoint(checkpoint)
    for partition_id in range(big_state.NUM_PARTITIONS):
        table = opened.read_state(partitions=[partition_id])
        with pa.ipc.new_stream(str(tmp_path / f"{partition_id}.arrow"), table.schema) as writer:
            writer.write_table(table)
    schema = spark.read.format("hdfsstore").load(str(checkpoint)).schema
    spark.dataSource.register(decoded_source(tmp_path, schema))

    def frame(source: str) -> DataFrame:
        reader = spark.read.format(source)
        return reader.load() if source == "decoded" else reader.load(str(checkpoint))

    def to_noop(source: str) -> Callable[[], object]:
        return lambda: frame(source).write.format("noop").mode("overwrite").save()

    def to_parquet(source: str) -> Callable[[], object]:
        return lambda: frame(source).write.mode("overwrite").parquet(str(tmp_path / f"{source}.parquet"))

    sources = ("statestore", "hdfsstore", "decoded")
    assert {frame(source).count() for source in sources} == {num_keys}
    for sink, to, goal in (("noop", to_noop, 6), ("parquet", to_parquet, 3)):
        spark_s, beside_spark = side_by_side({source: to(source) for source in sources[:2]}, rounds).values()
        # Not in turns with statestore, behind which Spark's threads tidy up for a while.
        ours, decoded = side_by_side({source: to(source) for source in sources[1:]}, 4 * rounds).values()
        taken = {
            "statestore": spark_s,
            "hdfsstore, beside statestore": beside_spark,
            "hdfsstore": ours,
            "decoded": decoded,
        }
        for name, seconds in taken.items():
            report.add(f"{name} to {sink}", f"{seconds:.2f} s", f"{num_keys / seconds / 1e6:.2f} million rows a second")
        times = spark_s / beside_spark
        report.add(f"to {sink}: faster than statestore by", f"{times:.1f} x", f"goal: {goal} x, or the next")
        report.add(f"to {sink}: time of batches decoded beforehand", f"{ours / decoded:.2f} x", "goal: 1.25 x")
    benchmark.pedantic(to_noop("hdfsstore"), rounds=1)
