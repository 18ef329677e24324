"""Reads a store with Spark's `statestore` source."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from tests.data.generate.truth import by_place, in_months, to_arrow
from tests.support.continued_stores import StoreName
from tests.support.truth import Case, with_intervals


def sparks_rows(spark: SparkSession, case: Case, store: StoreName, checkpoint: Path) -> pa.Table:
    """The rows of a store at the newest batch."""
    options = {"operatorId": store.operator_id, "storeName": store.name}
    for name, value in case.facts["confs"].items():
        spark.conf.set(name, value)
    try:
        frame = spark.read.format("statestore").options(**options).load(str(checkpoint))
        months_of, months = in_months(by_place(frame.select("key", "value", "partition_id")))
        return with_intervals(to_arrow(months_of, frame.schema), months)
    finally:
        for name in case.facts["confs"]:
            spark.conf.unset(name)
