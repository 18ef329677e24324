"""Runs queries with another Spark, as lines of JSON ask: python -m tests.spark.support.other_spark FOLDER.

in    {"case":"aggregation","checkpoint":"/tmp/...","confs":{}}     a query is run until there is no input left
out   {"0":["{...}",...],"1":[...]}                                 the rows that each batch gives
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from pyspark.sql import DataFrame

from tests.data.generate import cases, rocksdb_cases, transform_cases  # noqa: F401 - they register their cases
from tests.data.generate.case import CASES, Inputs, Query
from tests.data.generate.session import start, unset


def run(query: Query, checkpoint: str) -> dict[int, list[str]]:
    outputs: dict[int, list[str]] = {}

    def sink(batch: DataFrame, batch_id: int) -> None:
        outputs[batch_id] = sorted(batch.toJSON().collect())

    writer = query.frame.writeStream.foreachBatch(sink).outputMode(query.mode)
    writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()
    return outputs


def main(folder: Path) -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what Spark prints is no answer
    spark = start(folder, None, {})
    queries: dict[str, Query] = {}
    for line in sys.stdin:
        asked = json.loads(line)
        case = CASES[asked["case"]]
        confs = {**case.confs, **asked["confs"]}
        for name, value in confs.items():
            spark.conf.set(name, value)
        if case.name not in queries:
            queries[case.name] = case.build(Inputs(spark, folder / case.name))
        outputs = run(queries[case.name], asked["checkpoint"])
        unset(spark, confs)
        print(json.dumps(outputs), file=answers, flush=True)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
