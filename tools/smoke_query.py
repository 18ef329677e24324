"""Runs a stateful query with a timeout on the installed wheel: python -I tools/smoke_query.py FOLDER, an empty one."""

import os
import sys
import threading
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

import hdfsstore
from hdfsstore.spark import groupBy

os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"


def expire(rows, state):
    """Keeps each user for a millisecond; gives those whose time is over."""
    if rows.num_rows:
        state.put(rows, pa.table({"seen": pa.array([1] * rows.num_rows, pa.int64())}), timeout_ms=1)
        return pa.table({"user": pa.array([], pa.string())})
    over = state.expired()
    state.remove(over)
    return over.select(["user"])


folder = Path(sys.argv[1])
(folder / "in").mkdir()
(folder / "in" / "0.json").write_text('{"user": "ann"}\n')
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", False).getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
spark.conf.set("spark.sql.shuffle.partitions", 1)
users = spark.readStream.schema("user string").json(str(folder / "in"))
stream = groupBy(users, "user").mapInArrowWithState(
    expire, "user string", "seen long", "append", "ProcessingTimeTimeout"
)
gone = []
done = threading.Event()


def sink(output, _batch_id):
    gone.extend(row.user for row in output.collect())
    if gone:
        done.set()


query = stream.writeStream.option("checkpointLocation", str(folder / "checkpoint")).foreachBatch(sink).start()
while not done.wait(1):
    if query.exception() or not query.isActive:
        sys.exit(f"the query ended: {query.exception()}")
query.stop()
spark.stop()
if gone != ["ann"]:
    sys.exit(f"the timeout gave {gone}")
where = Path(hdfsstore.__file__).parent
print(f"a query with a timeout on the wheel, Spark {spark.version}")
if "site-packages" not in where.parts:
    sys.exit(f"the wheel was not used: {where}")
