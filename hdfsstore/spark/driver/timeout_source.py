"""Makes Spark run a batch when timeouts may have expired and no data comes.

After each batch Spark asks its own stateful operators whether it must run another one. It does not ask ours.
TimeoutSource.java is a streaming source in the plan beside the user's. It never sends a row, and has a new offset
exactly when such a batch must run.
"""

from __future__ import annotations

import re
import uuid
from functools import cache
from importlib.resources import files
from typing import Any

from pyspark.sql import DataFrame

from hdfsstore.spark.spec import NO_TIMEOUT, TimeoutConf

_NEVER = (1 << 63) - 1
# The smallest timeout of a state that is not known: it may have expired.
UNKNOWN = -(1 << 63)
# The source's name, if the sources of a query have names.
_NAME = "hdfsstore_timeouts"


class TimeoutSource:
    """The timeout source of one run of a query. It gets the state's next timeout after each batch."""

    def __init__(self, source: Any, run: str) -> None:
        self._source = source
        self._run = run

    def note(self, batch_id: int, watermark_ms: int, next_timeout_ms: int | None) -> None:
        """Notes the next timeout at the end of foreachBatch. After the query's end it does nothing.

        Only the first batch of a run may do without this call, if it was committed before.

        Args:
            watermark_ms: batchWatermarkMs of Spark's offsets/<batch_id>.
            next_timeout_ms: under ProcessingTimeTimeout the smallest timeout in the state, or a lower bound of it
                (which may cost a batch that finds no expired key). None if there is none. EventTimeTimeout ignores it.
        """
        self._source.note(self._run, batch_id, watermark_ms, _or_never(next_timeout_ms))


def with_timeout_source(
    df: DataFrame, timeout_conf: TimeoutConf, next_timeout_ms: int | None = UNKNOWN, *, is_named: bool = False
) -> tuple[DataFrame, TimeoutSource | None]:
    """Adds the timeout source to a streaming DataFrame. Under NoTimeout it returns df itself and None.

    A start of a query calls it once. The rows, the schema, the metadata of an event-time column and the watermark are
    those of df. The source is the last one in the checkpoint's offset log.

    If `spark.sql.streaming.noDataMicroBatches.enabled`, the source asks for a batch when after the last committed batch

    - EventTimeTimeout: the watermark is above that batch's own. Unlike in Spark, this holds after a restart too.
    - ProcessingTimeTimeout: the clock has passed the smallest timeout, or this timeout is not known. If the function
      leaves an expired key alone, the source asks for batch after batch, as Spark does. Under availableNow it asks for
      one batch at most, so that the query ends.

    Args:
        next_timeout_ms: as in TimeoutSource.note, at the end of the last batch of the run before.
        is_named: whether the query's sources have names (Spark 4.2 and newer). Then this one is `hdfsstore_timeouts`.
    """
    if timeout_conf == NO_TIMEOUT:
        return df, None
    spark = df.sparkSession
    source = _compiled(spark.sparkContext._gateway)
    run = str(uuid.uuid4())
    first, name = _or_never(next_timeout_ms), _NAME if is_named else None
    no_rows = source.open(spark._jsparkSession, run, timeout_conf, first, df._jdf.schema(), name)
    # If the source has no new offset, Spark's optimizer removes the empty side of the union, and the union.
    return df.unionAll(DataFrame(no_rows, spark)), TimeoutSource(source, run)


def _or_never(next_timeout_ms: int | None) -> int:
    return _NEVER if next_timeout_ms is None else next_timeout_ms


@cache
def _compiled(gateway: Any) -> Any:
    """Compiles TimeoutSource.java in the gateway's JVM. The instance lets Python call its static methods."""
    # Py4J caches methods by the class's name, for all Python processes that share a JVM.
    name = f"HdfsStoreTimeouts_{uuid.uuid4().hex}"
    source = re.sub(r"\bTimeoutSource\b", name, files(__package__).joinpath("TimeoutSource.java").read_text("utf-8"))
    jvm = gateway.jvm
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.Thread.currentThread().getContextClassLoader())
    compiler.cook(source)
    return compiler.getClassLoader().loadClass(name).newInstance()
