"""Writes checkpoints with Sparks 2.1 to 3.3. The syntax is that of Python 3.6, which the oldest of them needs.

python -m tests.data.generate.old_spark FOLDER CASE...
"""

import json
import os
import shutil
import sys
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType, IntegerType, StringType, StructField, StructType, TimestampType

SCHEMA = StructType(
    [
        StructField("k", StringType()),
        StructField("ts", TimestampType()),
        StructField("n", IntegerType()),
        StructField("d", DoubleType()),
    ]
)
WORDS = ["a", "bb", "eightbyt", "ninebytes", "", "Z\u00fcrich", "\u65e5\u672c\u8a9e", None]
PARTITIONS = 2
BATCHES = 3


def events(spark, folder):
    """The stream of data.py's events: one JSON file a batch."""
    folder.mkdir(parents=True)
    for batch in range(BATCHES):
        rows = [
            {
                "k": WORDS[(3 * batch + i) % len(WORDS)],
                "ts": f"2024-01-01T12:{4 * batch + i % 3:02}:{7 * i:02}.000Z",
                "n": None if (batch + i) % 7 == 3 else 10 * batch + i,
                "d": None if (batch + i) % 5 == 2 else (batch + 1) * (i - 2) / 8,
            }
            for i in range(5)
        ]
        file = folder / f"{batch:03}.json"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        os.utime(file, (1700000000 + batch, 1700000000 + batch))
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(folder))


def aggregation(stream):
    """groupBy with two sums and two counts, in complete mode."""
    return stream.groupBy("k").agg(F.count("*"), F.sum("n"), F.count("n"), F.sum("d")), "complete"


def drop_duplicates(stream):
    """dropDuplicates: 16 bytes of a single null as value, whatever the schema file says."""
    return stream.dropDuplicates(["k"]), "append"


def window_aggregation(stream):
    """Tumbling windows in append mode with a watermark."""
    stream = stream.withWatermark("ts", "2 minutes")
    return stream.groupBy(F.window("ts", "3 minutes"), "k").agg(F.count("*"), F.sum("d")), "append"


def session_window(stream):
    """Session windows in append mode with a watermark: keys with a prefix."""
    stream = stream.withWatermark("ts", "3 minutes")
    return stream.groupBy(F.session_window("ts", "90 seconds"), "k").agg(F.count("*"), F.sum("n")), "append"


def self_join(stream):
    """A left outer join of the stream with itself: four stores."""
    left = stream.withWatermark("ts", "2 minutes").alias("l")
    right = stream.withColumnRenamed("ts", "t").withWatermark("t", "1 minute").alias("r")
    near = "l.k = r.k AND t BETWEEN ts - INTERVAL 2 MINUTES AND ts + INTERVAL 2 MINUTES"
    return left.join(right, F.expr(near), "leftOuter"), "append"


ROCKSDB = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    )
}
ON_ROCKSDB = (aggregation, drop_duplicates, window_aggregation, session_window, self_join)
CASES = {
    **{case.__name__: (case, {}) for case in (aggregation, drop_duplicates, window_aggregation)},
    **{f"rocksdb_{case.__name__}": (case, ROCKSDB) for case in ON_ROCKSDB},
}


def run(spark, name, folder):
    """Runs the query of a case and notes in case.json what it was and what its sink got."""
    shutil.rmtree(str(folder), ignore_errors=True)
    build, confs = CASES[name]
    for conf, value in confs.items():
        spark.conf.set(conf, value)
    frame, mode = build(events(spark, folder / "input" / "input"))
    writer = frame.writeStream.outputMode(mode).format("memory").queryName(name)
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
    query.processAllAvailable()
    operators = query.recentProgress[-1].get("stateOperators", [])
    query.stop()
    for conf in confs:
        spark.conf.unset(conf)
    about = {
        "spark": pyspark.__version__,
        "case": name,
        "description": build.__doc__,
        "confs": confs,
        "operator_names": [operator.get("operatorName") for operator in operators],
        "output": [json.loads(row) for row in sorted(spark.table(name).toJSON().collect())],
    }
    (folder / "case.json").write_text(json.dumps(about))
    print("written", pyspark.__version__, name)


def main(folder, names):
    builder = SparkSession.builder.master("local[2]")
    confs = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(PARTITIONS),
        "spark.sql.catalogImplementation": "in-memory",
    }
    for name, value in confs.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    for name in names:
        run(spark, name, folder / name)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
