"""The checkpoints of tests/data and what Spark read from them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pytest
from _pytest.mark import ParameterSet

T = TypeVar("T")

DATA = Path(__file__).parents[1] / "data"
NEWEST = max((path.name for path in DATA.glob("spark-*")), key=lambda name: [int(n) for n in name[6:].split(".")])


@dataclass(frozen=True)
class Case:
    """One checkpoint that a real Spark wrote."""

    folder: Path

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    @property
    def families(self) -> bool:
        """Whether it has a store with column families."""
        return _has(self.checkpoint, "state/*/_stateSchema")

    @property
    def facts(self) -> dict[str, Any]:
        return _facts(self.folder)

    @property
    def repartitioned(self) -> bool:
        """Whether committed batches have other numbers of partitions."""
        return bool(self.facts.get("borrowed_folders"))

    @property
    def rocksdb(self) -> bool:
        return _has(self.checkpoint, "state/*/*/**/*.zip") or _has(self.checkpoint, "state/*/*/**/*.changelog")

    def __str__(self) -> str:
        return f"{self.folder.parent.name}-{self.folder.name}"


@cache
def _has(folder: Path, names: str) -> bool:
    return any(folder.glob(names))


@cache
def _facts(folder: Path) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads((folder / "truth" / "case.json").read_text(encoding="utf-8"))
    return facts


@dataclass(frozen=True)
class Read:
    """One read of Spark's statestore source."""

    case: Case
    facts: dict[str, Any]

    @property
    def rows(self) -> pa.Table:
        """Spark's rows. Year-month intervals, which toArrow cannot give, were read as numbers of months."""
        table = pa.ipc.open_file(self.case.folder / "truth" / self.facts["file"]).read_all()
        return with_intervals(table, self.facts["in_months"])

    @property
    def crosses_repartition(self) -> bool:
        """Whether it is a change feed over batches with other numbers of partitions."""
        feed, batches = self.facts["change_feed"], self.case.facts["committed_batches"]
        return self.case.repartitioned and feed == [batches[0], batches[-1]]

    def __str__(self) -> str:
        return f"{self.case}-{self.facts['file'].removesuffix('.arrow')}"


def with_intervals(table: pa.Table, in_months: list[str]) -> pa.Table:
    """A table as Spark read it, with intervals in those columns (`value.<place>`) that hold numbers of months."""
    for path in in_months:
        column, field = path.split(".")
        at = table.column_names.index(column)
        table = table.set_column(at, column, _as_intervals(table[column].combine_chunks(), int(field)))
    return table


def _as_intervals(rows: pa.StructArray, field: int) -> pa.StructArray:
    """Rows with one field's months, or lists of months, as intervals."""
    fields, kinds = rows.flatten(), list(rows.type)
    months = fields[field]
    if pa.types.is_list(months.type):
        kind = pa.list_(pa.field("element", pa.month_day_nano_interval()))
        lists = [None if months_ is None else list(map(_interval, months_)) for months_ in months.to_pylist()]
        fields[field] = pa.array(lists, kind)
    else:
        fields[field] = pa.array(map(_interval, months.to_pylist()), pa.month_day_nano_interval())
    kinds[field] = pa.field(kinds[field].name, fields[field].type)
    return pa.StructArray.from_arrays(fields, fields=kinds, mask=rows.is_null())


def _interval(months: int | None) -> pa.MonthDayNano | None:
    return None if months is None else pa.MonthDayNano((months, 0, 0))


def cases() -> list[Case]:
    """All checkpoints."""
    return [Case(path.parent.parent) for path in sorted(DATA.glob("spark-*/*/truth/case.json"))]


def reads() -> Iterator[Read]:
    """All that Spark read from the checkpoints of the HDFS-backed provider."""
    for case in cases():
        if not case.rocksdb:
            for facts in case.facts["reads"]:
                yield Read(case, facts)


def rocksdb_reads() -> Iterator[Read]:
    """All that it could read from those of the RocksDB provider without column families."""
    for case in cases():
        if case.rocksdb and not case.families:
            for facts in case.facts["reads"]:
                if facts["file"]:
                    yield Read(case, facts)


def family_reads() -> Iterator[Read]:
    """All that it could read from those with column families."""
    for case in cases():
        if case.families:
            for facts in case.facts["reads"]:
                if facts["file"]:
                    yield Read(case, facts)


def few(
    items: Iterable[T],
    case_of: Callable[[T], Case],
    kind_of: Callable[[T], Hashable],
    rows_of: Callable[[T], int] = lambda _: 0,
) -> list[ParameterSet]:
    """The items as parameters of a test. Of those in RocksDB `make check` takes one of each kind, by Spark's newest
    release: the one with the most rows, the last one of equal ones. `make test` takes all.
    """
    found = list(items)
    newest = [item for item in found if case_of(item).folder.parent.name == NEWEST]
    taken = {id(item) for item in {kind_of(item): item for item in sorted(newest, key=rows_of)}.values()}
    return [
        pytest.param(item, marks=[pytest.mark.thorough] if case_of(item).rocksdb and id(item) not in taken else [])
        for item in found
    ]


def few_cases(found: Iterable[Case]) -> list[ParameterSet]:
    """Cases as parameters: `make check` takes one of each set of operators in RocksDB."""
    return few(found, lambda case: case, lambda case: json.dumps(case.facts["operators"]))


def few_reads(found: Iterable[Read]) -> list[ParameterSet]:
    """Reads as parameters: `make check` takes one of each store and each way to read it in RocksDB."""
    return few(
        found,
        lambda read: read.case,
        lambda read: (read.case, re.sub(r"-batch\d+", "", read.facts["file"])),
        lambda read: read.facts["num_rows"] or 0,
    )
