"""A streaming source without rows that makes Spark run a batch when timeouts may be due and no data comes.

Spark asks its own stateful operators after each batch whether another one is needed; it does not ask us.
TimeoutSource.java is a source of Spark's that stands in the plan beside the user's, never sends a row, and has a new
offset exactly then.
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
# The smallest timeout of a state that nothing is known of: it may be over.
UNKNOWN = -(1 << 63)
# The source's name, where the sources of a query have names.
_NAME = "hdfsstore_timeouts"


class TimeoutSource:
    """The timeout_source of one start of a query: what Spark's driver has to be told after each batch."""

    def __init__(self, source: Any, run: str) -> None:
        self._source = source
        self._run = run

    def note(self, batch_id: int, watermark_ms: int, next_timeout_ms: int | None) -> None:
        """Says, at the end of foreachBatch, where the state is now. After the query's end it does nothing.

        A batch that is not noted, as its results were there already, may only be the first of a run.

        Args:
            watermark_ms: batchWatermarkMs of Spark's offsets/<batch_id>.
            next_timeout_ms: under ProcessingTimeTimeout the smallest timeout in the state, or a number below it (which
                may cost a batch that finds nothing due); None where there is none. Ignored under EventTimeTimeout.
        """
        self._source.note(self._run, batch_id, watermark_ms, _or_never(next_timeout_ms))


def with_timeout_source(
    df: DataFrame, timeout_conf: TimeoutConf, next_timeout_ms: int | None = UNKNOWN, *, is_named: bool = False
) -> tuple[DataFrame, TimeoutSource | None]:
    """The streaming DataFrame with the source that ticks beside its own ones; df itself and None under NoTimeout.

    To be called once for each start of a query. The rows, the schema, the metadata of an event-time column and the
    watermark are those of df. The source is the last one in the checkpoint's offset log.

    A batch is offered, if `spark.sql.streaming.noDataMicroBatches.enabled`, when after the last committed batch

    - EventTimeTimeout: the watermark is above that batch's own; also after a restart, other than in Spark.
    - ProcessingTimeTimeout: the clock is past the smallest timeout, or that is not known. A key that the function
      leaves alone stays due, which makes batch after batch, as in Spark. Under availableNow there is one such batch at
      most, so that the query ends.

    Args:
        next_timeout_ms: as for TimeoutSource.note, at the end of the last batch of the run before.
        is_named: whether the query's sources have names (Spark 4.2 and newer): then this one is `hdfsstore_timeouts`.
    """
    if timeout_conf == NO_TIMEOUT:
        return df, None
    spark = df.sparkSession
    source = _compiled(spark.sparkContext._gateway)
    run = str(uuid.uuid4())
    first, name = _or_never(next_timeout_ms), _NAME if is_named else None
    timeout_source = source.open(spark._jsparkSession, run, timeout_conf, first, df._jdf.schema(), name)
    # In batches without a tick Spark's optimizer takes the empty side out of the plan, and the union with it.
    return df.unionAll(DataFrame(timeout_source, spark)), TimeoutSource(source, run)


def _or_never(next_timeout_ms: int | None) -> int:
    return _NEVER if next_timeout_ms is None else next_timeout_ms


@cache
def _compiled(gateway: Any) -> Any:
    """An instance of TimeoutSource.java, through which its static methods are called in that gateway's JVM."""
    # Py4J remembers methods by the class's name, for all Python processes that share a JVM.
    name = f"HdfsStoreTicks_{uuid.uuid4().hex}"
    source = re.sub(r"\bTimeoutSource\b", name, files(__package__).joinpath("TimeoutSource.java").read_text("utf-8"))
    jvm = gateway.jvm
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.Thread.currentThread().getContextClassLoader())
    compiler.cook(source)
    return compiler.getClassLoader().loadClass(name).newInstance()
