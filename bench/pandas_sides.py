"""applyInPandasWithState's function without Spark: in a plain loop and by our engine, in a process a partition."""

from __future__ import annotations

import gc
import multiprocessing
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, cast

import pandas as pd
import pyarrow as pa
from pyspark.sql import types as s

from bench.user_functions import DictState, pandas_sums
from hdfsstore.codecs import types as t
from hdfsstore.codecs.arrow_types import to_arrow_schema
from hdfsstore.fs.location import StorageLocation
from hdfsstore.spark.base_ids import BaseIds
from hdfsstore.spark.convert.pandas_types import PandasConf
from hdfsstore.spark.spec import BatchSpec, Columns, QuerySpec
from hdfsstore.spark.worker.engine import KeyedRows
from hdfsstore.spark.worker.pandas_engine import PandasEngine
from hdfsstore.spark.worker.partition_state import PartitionState
from hdfsstore.state.conf import StateStoreConf
from hdfsstore.state.open import open_provider
from hdfsstore.state.store_id import StateStoreId

PARTITIONS = 2
KEY = s.StructType().add("user", s.StringType())
STATE = s.StructType().add("count", s.LongType()).add("sum", s.LongType())
OUTPUT = s.StructType(KEY.fields + STATE.fields)

Function = Callable[[Any, Any, Any], Any]


def nothing(*_: Any) -> tuple[()]:
    """Takes no frame, and does nothing."""
    return ()


def frames_only(_: Any, frames: Iterator[pd.DataFrame], __: Any) -> tuple[()]:
    """Takes the frames, and does nothing with them."""
    for _ in frames:
        pass
    return ()


def frames_and_state(_: Any, frames: Iterator[pd.DataFrame], state: Any) -> tuple[()]:
    """Takes the frames, and sets the state."""
    count, total = state.get if state.exists else (0, 0)
    for _ in frames:
        count += 1
    state.update((count, total))
    return ()


GIVEN = pd.DataFrame({"user": ["a"], "count": [1], "sum": [1]})


def same_frame(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    """And gives a frame that costs nothing."""
    frames_and_state(key, frames, state)
    yield GIVEN


STAGES: dict[str, Function] = {
    "keys, states read": nothing,
    "and frames": frames_only,
    "and states written": frames_and_state,
    "and output": same_frame,
}


@dataclass(frozen=True)
class Taken:
    """What a piece of work has taken, in seconds, in the process that needed most.

    Attributes:
        elapsed: of the clock, which is what a batch of a query is timed by.
        cpu: of the processor: differences of some microseconds a key, which other processes of the machine blur.
    """

    elapsed: float
    cpu: float


class Workers:
    """The processes, each with its share of the batches; each piece of work is done by all of them at once.

    They are spawned: a forked process pays for each page of its parent's that it writes to, if only a reference count.

    Args:
        batches: rows with user and amount.
    """

    def __init__(self, batches: list[pa.Table]) -> None:
        context = multiprocessing.get_context("spawn")
        self._connections: list[Connection] = []
        self._processes = []
        for partition in range(PARTITIONS):
            ours, theirs = context.Pipe()
            process = context.Process(target=_work, args=(theirs, [_share(b, partition) for b in batches]))
            process.start()
            self._connections.append(ours)
            self._processes.append(process)

    def run(self, what: str, batch: int) -> Taken:
        """Does "floor", "engine", or the engine with one of STAGES, on rows prepared before the clock starts."""
        for step in ("prepare", "run"):
            for connection in self._connections:
                connection.send((step, what, batch))
            taken = [cast("Taken", connection.recv()) for connection in self._connections]
        return Taken(max(one.elapsed for one in taken), max(one.cpu for one in taken))

    def close(self) -> None:
        """Ends the processes."""
        for connection, process in zip(self._connections, self._processes, strict=True):
            connection.send(None)
            process.join()


def _share(batch: pa.Table, partition: int) -> pa.Table:
    """The rows of every PARTITIONS-th user."""
    codes = batch["user"].combine_chunks().dictionary_encode().indices.to_numpy()
    return batch.select(["user", "amount"]).filter(pa.array(codes % PARTITIONS == partition))


def _work(connection: Connection, batches: list[pa.Table]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        sides: dict[str, Any] = {"floor": Floor(), "engine": Engine(Path(folder, "engine"), pandas_sums)}
        for name, func in STAGES.items():
            sides[name] = Engine(Path(folder, name), func)
        while (command := connection.recv()) is not None:
            step, what, batch = command
            side = sides[what]
            if step == "prepare":
                side.prepare(batches[batch % len(batches)])
                connection.send(Taken(0.0, 0.0))
                continue
            begun, cpu_begun = time.perf_counter(), time.process_time()
            side.run()
            connection.send(Taken(time.perf_counter() - begun, time.process_time() - cpu_begun))
            side.release()


class Floor:
    """What no engine can go below: the function in a plain loop, on frames made beforehand, with a dict for its states.

    Each run has frames of its own, as a frame keeps what is taken out of it, and gives it faster the second time. The
    garbage collector stays on, but holding the frames costs the function nothing: they are frozen, so that none of its
    collections looks through them, and each is dropped when it is done, with what it keeps, which would bring about
    twice as many collections as the function does by itself.
    """

    def __init__(self) -> None:
        self._states: dict[str, tuple[int, int]] = {}
        self._frames: list[tuple[str, pd.DataFrame]] = []

    def prepare(self, rows: pa.Table) -> None:
        groups = rows.to_pandas().groupby("user")
        self._frames = [(str(user), frame.reset_index(drop=True)) for user, frame in groups]
        self._frames.reverse()
        gc.collect()
        gc.freeze()

    def run(self) -> None:
        frames = self._frames
        while frames:
            user, frame = frames.pop()
            for _ in pandas_sums((user,), iter([frame]), DictState(self._states, user)):
                pass

    def release(self) -> None:
        """Lets the garbage collector see everything again, for the other sides."""
        gc.unfreeze()


class Engine:
    """A partition whose rows go through PandasEngine, over a store."""

    def __init__(self, folder: Path, func: Function) -> None:
        key, state, output = (cast("t.StructType", t.parse_type(schema.json())) for schema in (KEY, STATE, OUTPUT))
        self._engine = PandasEngine(func, OUTPUT, to_arrow_schema(output), STATE, PandasConf())
        columns = Columns(("user", "amount"), ("user",), (0,))
        conf = StateStoreConf(local_dir=str(folder / "local"))
        self._query = QuerySpec(
            "run", StorageLocation(str(folder / "state")), 1, columns, key, state, "NoTimeout", conf, 1 << 30
        )
        self._provider = open_provider(StateStoreId(self._query.state_root, 0, 0), conf=conf)
        self._version = 0
        self._unique_id: str | None = None
        self._call: KeyedRows | None = None

    def prepare(self, rows: pa.Table) -> None:
        keys = pa.StructArray.from_arrays([rows["user"].combine_chunks()], names=["user"])
        self._call = KeyedRows(rows, cast("pa.StructArray", keys), is_sorted=False)

    def run(self) -> None:
        assert self._call is not None
        spec = BatchSpec(self._version, BaseIds((self._unique_id,)), -1, 0, -1, is_sorted=False, has_markers=True)
        with self._provider.get_store(self._version, self._unique_id) as store:
            state = PartitionState(self._query, spec, 0, cast("Any", store), self._call.rows.slice(0, 0))
            for _ in self._engine.data(iter([self._call]), state):
                pass
            self._unique_id = store.commit().checkpoint_unique_id
        self._version += 1

    def release(self) -> None:
        """Drops the rows."""
        self._call = None
