"""Send the engine of a query, with the user's function in it, to the tasks. It is pickled once a run.

PySpark pickles a batch's function on the thread that plans the batch, and registers the broadcast variables that it
finds there. The engine is pickled before, at the query's start, so the variables that it uses are sent beside it. For a
function of more than a megabyte, PySpark makes a broadcast variable in each batch, and never deletes its file. So a
large engine becomes a broadcast variable of ours, whose content is deleted when the query ends.

Each task unpickles its own engine, as PySpark's tasks do: what the function remembers outside the state does not
outlive the task, and accumulators are those that Spark reads after this task.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark import Broadcast, InheritableThread, SparkContext, cloudpickle
from pyspark.errors import PySparkException

from hdfsstore.errors import StateStoreError
from hdfsstore.spark.worker.engine import Engine

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger("hdfsstore.spark.shipped_engine")

# How often the thread that waits for the end of a query checks whether its session was stopped.
_LOOK_SECONDS = 10


@dataclass(frozen=True, slots=True)
class ShippedEngine:
    """An engine on its way to the tasks; `ship` makes it.

    Attributes:
        pickled: by cloudpickle; a broadcast variable of ours if it is large.
        broadcasts: the user's broadcast variables that the function uses.
    """

    pickled: bytes | Broadcast[bytes]
    broadcasts: tuple[Broadcast[Any], ...] = ()

    def load(self) -> Engine:
        """The engine, for one task.

        Raises:
            StateStoreError: it was freed, and the task runs where the driver's file was.
        """
        try:
            pickled = self.pickled if isinstance(self.pickled, bytes) else self.pickled.value
        except FileNotFoundError as error:
            raise StateStoreError(
                "output cannot be computed again: its query has ended, and the function was deleted with it",
                remedy="To use output later, write it to a table or to files, or persist all of it in the sink",
            ) from error
        engine: Engine = cloudpickle.loads(pickled)
        return engine

    def free(self) -> None:
        """Deletes the engine's files and blocks on the driver and the executors. To be called once, when no batch runs.

        The broadcast variable itself is not destroyed: Spark refuses a plan with a destroyed variable, even a plan of
        cached output. Spark's cleaner destroys it when no output is left.
        """
        if isinstance(self.pickled, bytes):
            return
        context = self.pickled._sc
        try:
            # A stopped session leaves only the file; another variable may have its number by now.
            if context is not None and context._jsc is not None:
                jvm: Any = context._jvm
                blocks = getattr(getattr(jvm.org.apache.spark.broadcast, "TorrentBroadcast$"), "MODULE$")
                blocks.unpersist(self.pickled._jbroadcast.id(), True, False)  # on the driver too, and without waiting
        except Py4JError as error:
            log.warning("the broadcast variable of a query's function is left to Spark: %s", error)
        finally:
            Path(self.pickled._path).unlink(missing_ok=True)

    def free_after(self, query: StreamingQuery) -> None:
        """Frees it when the query that was started with it has ended, for whatever reason."""
        if isinstance(self.pickled, bytes):
            return
        context = self.pickled._sc

        def wait_and_free() -> None:
            try:
                while not query.awaitTermination(_LOOK_SECONDS) and context is not None and context._jsc is not None:
                    log.debug("query %s has not ended", query.id)
            except (PySparkException, Py4JError) as error:
                log.debug("the query has ended: %s", error)
            self.free()

        InheritableThread(target=wait_and_free, name="hdfsstore: end of a query", daemon=True).start()


def ship(context: SparkContext, engine: Engine) -> ShippedEngine:
    """Pickles an engine for the tasks of a run. The caller has to free it."""
    met: Any = context._pickled_broadcast_vars  # of this thread
    before = list(met)
    met.clear()
    try:
        pickled: bytes = cloudpickle.dumps(engine)  # type: ignore[no-untyped-call]
        broadcasts = tuple(met)
    finally:
        met.clear()
        for broadcast in before:
            met.add(broadcast)
    assert context._jvm is not None
    # Half of PySpark's limit: a task also carries the ids of all partitions' versions.
    if len(pickled) > context._jvm.PythonUtils.getBroadcastThreshold(context._jsc) // 2:
        return ShippedEngine(context.broadcast(pickled), broadcasts)
    return ShippedEngine(pickled, broadcasts)
