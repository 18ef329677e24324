"""What a case is: a streaming query over files that are read one a batch."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

Row = dict[str, Any]
FIRST_FILE_TIME = 1_700_000_000
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


class FailedOnPurpose(Exception):
    """Raised in a batch that is to stay unfinished."""


class Inputs:
    """Writes the input files of a case and reads them as streams, one file a batch."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.folder = folder

    def stream(self, name: str, schema: str, batches: Sequence[Sequence[Row]], source_name: str = "") -> DataFrame:
        """One JSON file a batch, with rising modification times, as a stream of the given schema.

        Called again with the same name, it adds its files to those that are there.
        """
        folder = self.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        for number, rows in enumerate(batches, len(list(folder.iterdir()))):
            file = folder / f"{number:03}.json"
            file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
            os.utime(file, (FIRST_FILE_TIME + number, FIRST_FILE_TIME + number))
        reader = self.spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        if source_name:
            reader = reader.name(source_name)
        return reader.json(str(folder))


@dataclass(frozen=True)
class Query:
    """A streaming DataFrame and how it is written.

    batches: for queries in processing time, which run batches without end: stop after so many, one a second.
    then: builds the query that goes on from the checkpoint afterwards, with confs_then on top of the case's confs.
    between: called with the session and the checkpoint's folder before it goes on.
    """

    frame: DataFrame
    mode: str = "update"
    fail_in_batch: int | None = None
    sink_name: str = ""
    batches: int | None = None
    then: Callable[[], Query] | None = None
    confs_then: dict[str, str] = field(default_factory=dict)
    between: Callable[[SparkSession, Path], None] | None = None


@dataclass(frozen=True)
class Case:
    """A named query, the Spark versions it is written with, and its confs."""

    name: str
    description: str
    build: Callable[[Inputs], Query]
    sparks: tuple[str, ...]
    confs: dict[str, str] = field(default_factory=dict)
    own_session: bool = False
    afterwards: Callable[[SparkSession, Path], None] | None = None


CASES: dict[str, Case] = {}
ALL = ("3.5", "4.0", "4.1", "4.3")
SINCE_40 = ("4.0", "4.1", "4.3")
SINCE_41 = ("4.1", "4.3")
LAST = ("4.3",)


def case(
    *sparks: str,
    confs: dict[str, str] | None = None,
    own_session: bool = False,
    afterwards: Callable[[SparkSession, Path], None] | None = None,
    suffix: str = "",
) -> Callable[[Callable[[Inputs], Query]], Callable[[Inputs], Query]]:
    """Registers a function as the case of its name; its docstring is the description.

    own_session: confs must be there when the session starts (maintenance), so no other case shares it.
    afterwards: called with the session and the checkpoint's folder when the query has ended.
    suffix: ends the name and the description, where one function makes several cases.
    """

    def register(build: Callable[[Inputs], Query]) -> Callable[[Inputs], Query]:
        name, description = build.__name__, " ".join((build.__doc__ or "").split())
        if suffix:
            name, description = f"{name}_{suffix}", f"{description}: {suffix}."
        CASES[name] = Case(name, description, build, sparks, confs or {}, own_session, afterwards)
        return build

    return register


def cases_of(spark: str) -> list[Case]:
    """The cases of a Spark release: those that name its minor version or exactly it."""
    minor = ".".join(spark.split(".")[:2])
    patch_only = {"4.0.0"}
    return [
        found
        for found in CASES.values()
        if spark in found.sparks or (minor in found.sparks and spark not in patch_only)
    ]
