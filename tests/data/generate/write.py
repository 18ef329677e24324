"""Runs inside the environment of one Spark: writes the checkpoints of the named cases.

python -m tests.data.generate.write FOLDER CLASS_PATH CASE...
"""

from __future__ import annotations

import json
import shutil
import sys
import time
import traceback
from pathlib import Path

import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from . import (  # noqa: F401 (they register their cases)
    cases,
    repartition_cases,
    rocksdb_by_hand,
    rocksdb_cases,
    transform_cases,
    types_cases,
)
from .case import CASES, Case, FailedOnPurpose, Inputs, Query
from .session import start, unset

ON_PURPOSE = "failed on purpose"


def run(spark: SparkSession, case: Case, folder: Path) -> None:
    """Runs the query of a case to its end and notes in case.json what it was."""
    shutil.rmtree(folder, ignore_errors=True)
    for name, value in case.confs.items():
        spark.conf.set(name, value)
    confs = dict(case.confs)
    try:
        query = case.build(Inputs(spark, folder / "input"))
        names = run_query(query, folder / "checkpoint")
        while query.then:
            if query.between:
                query.between(spark, folder / "checkpoint")
            confs |= query.confs_then
            for name, value in query.confs_then.items():
                spark.conf.set(name, value)
            query = query.then()
            names = run_query(query, folder / "checkpoint")
    finally:
        unset(spark, confs)
    if case.afterwards:
        case.afterwards(spark, folder / "checkpoint")
    about = {
        "spark": pyspark.__version__,
        "case": case.name,
        "description": case.description,
        "confs": confs,
        "operator_names": names,
    }
    (folder / "case.json").write_text(json.dumps(about), encoding="utf-8")


def run_query(query: Query, checkpoint: Path) -> list[str]:
    """Returns the names of the query's stateful operators, by operator id."""

    def sink(batch: DataFrame, batch_id: int) -> None:
        batch.collect()
        if batch_id == query.fail_in_batch:
            raise FailedOnPurpose(ON_PURPOSE)

    writer = query.frame.writeStream.outputMode(query.mode).option("checkpointLocation", str(checkpoint))
    writer = writer.format("noop") if query.fail_in_batch is None else writer.foreachBatch(sink)
    if query.sink_name:
        writer._jwrite = writer._jwrite.name(query.sink_name)
    trigger = {"availableNow": True} if query.batches is None else {"processingTime": "1 second"}
    running = writer.trigger(**trigger).start()
    try:
        if query.batches is not None:
            stop_after(running, checkpoint / "commits" / str(query.batches - 1))
        running.awaitTermination()
    except Exception as error:
        if query.fail_in_batch is None or ON_PURPOSE not in str(error):
            raise
    return [operator["operatorName"] for operator in running.recentProgress[-1]["stateOperators"]]


def stop_after(running: StreamingQuery, commit: Path) -> None:
    """Stops a query once a batch is committed."""
    while running.isActive and not commit.exists():
        time.sleep(0.05)
    running.stop()


def main(folder: Path, class_path: Path, names: list[str]) -> None:
    chosen = [CASES[name] for name in names]
    confs = chosen[0].confs if chosen[0].own_session else {}
    spark = start(folder, class_path, confs)
    failed = []
    for case in chosen:
        try:
            run(spark, case, folder / case.name)
            print("written", pyspark.__version__, case.name, flush=True)
        except Exception:  # noqa: BLE001 (the other cases still run)
            traceback.print_exc()
            failed.append(case.name)
    spark.stop()
    if failed:
        sys.exit(f"failed with Spark {pyspark.__version__}: {' '.join(failed)}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
