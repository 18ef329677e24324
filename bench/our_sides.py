"""Our stateful functions, on the functions that Spark's run too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming import StreamingQuery

from bench import user_functions as functions
from bench.spark_sides import PARTITIONS, to_noop
from bench.streams import Start
from bench.user_functions import OUTPUT, STATE
from hdfsstore.spark import groupBy

IN_ARROW, IN_ROWS, IN_PANDAS = APIS = "mapInArrowWithState", "mapWithState", "applyInPandasWithState"

_FUNCTIONS: dict[tuple[str, bool], Any] = {
    (IN_ARROW, False): functions.arrow_sums,
    (IN_ARROW, True): functions.arrow_sums_with_timeouts,
    (IN_ROWS, False): functions.row_sums,
    (IN_ROWS, True): functions.row_sums_with_timeouts,
    (IN_PANDAS, False): functions.pandas_sums,
    (IN_PANDAS, True): functions.pandas_sums_with_timeouts,
}


def ours(api: str, *, timeouts: bool = False, num_partitions: int = PARTITIONS, local_dir: Path | None = None) -> Start:
    """How to start a query of ours.

    Args:
        timeouts: whether 1 of EXPIRED_OF users expires after two batches of a minute.
        local_dir: for the local images, in the place of Spark's folder.
    """

    def start(rows: DataFrame, checkpoint: Path | str) -> StreamingQuery:
        if timeouts:
            groups = groupBy(rows.withWatermark("at", "0 seconds"), "user")
        else:
            groups = groupBy(rows.select("user", "amount"), "user")
        func = _FUNCTIONS[api, timeouts]
        conf = "EventTimeTimeout" if timeouts else "NoTimeout"
        writer = getattr(groups, api)(func, OUTPUT, STATE, "update", conf).writeStream.outputMode("update")
        writer.option("checkpointLocation", str(checkpoint)).option("hdfsstore.numPartitions", num_partitions)
        if local_dir is not None:
            writer.option("hdfsstore.localDir", str(local_dir))
        return writer.foreachBatch(to_noop).start()

    return start
