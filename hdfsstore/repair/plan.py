"""What a repair would do, and what it has done: the same fields for Python, for `--json` and for people."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields
from typing import Any

# So many are named for people.
_MOST_FILES = 20


@dataclass(slots=True)
class StorePlan:
    """One store.

    Attributes:
        name: the store.
        placement: the rule by which its rows are placed, in words; None: each row stays in its partition.
        partitions_in, partitions_out: partitions read and written.
        rows_in, rows_out: rows read and written; None: not counted (yet).
        bytes_in: bytes of the rows' keys and values, before compression; None: not counted (yet).
        bytes_out: bytes of the files written; None: nothing is written (yet).
    """

    name: str
    placement: str | None
    partitions_in: int
    partitions_out: int
    rows_in: int | None = None
    rows_out: int | None = None
    bytes_in: int | None = None
    bytes_out: int | None = None


@dataclass(slots=True)
class OperatorPlan:
    """One stateful operator: its number, Spark's name of it (None before Spark 4.0), and its stores."""

    operator_id: int
    name: str | None
    stores: list[StorePlan] = field(default_factory=list)


@dataclass(slots=True)
class Plan:
    """What a verb does to a checkpoint.

    Attributes:
        verb: its name.
        path: the checkpoint.
        batch_id: the committed batch whose state is taken.
        to: the new checkpoint; None: the work is done in place.
        operators: what happens to the state.
        conf: the settings that change: the name, and the value before (None: there was none) and after.
        files: what is written, moved or removed beside state files: paths relative to the checkpoint, each once.
        disk_bytes: bytes needed where the result is written, as far as they are known.
        session: settings that the next start of the query must have in its session.
        notes: what the user has to know.
    """

    verb: str
    path: str
    batch_id: int
    to: str | None = None
    operators: list[OperatorPlan] = field(default_factory=list)
    conf: dict[str, tuple[str | None, str]] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)
    disk_bytes: int | None = None
    session: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """The fields in values of JSON."""
        return asdict(self)

    def lines(self) -> Iterator[str]:
        """The plan for people, line by line."""
        target = "in place" if self.to is None else f"to {self.to}"
        yield f"{self.verb} {self.path} at batch {self.batch_id}, {target}"
        for operator in self.operators:
            yield f"operator {operator.operator_id}{f' ({operator.name})' if operator.name else ''}"
            for store in operator.stores:
                yield f"  {_line_of(store)}"
        for name, (before, after) in self.conf.items():
            yield f"{name}: {'not set' if before is None else before} -> {after}"
        if self.files:
            yield "files beside those of the state:"
            yield from (f"  {file}" for file in self.files[:_MOST_FILES])
            if len(self.files) > _MOST_FILES:
                yield f"  and {len(self.files) - _MOST_FILES:,} more, which --json names"
        if self.disk_bytes is not None:
            yield f"disk needed: about {self.disk_bytes:,} bytes"
        for name, value in self.session.items():
            yield f"the next start of the query needs {name}={value}"
        yield from self.notes


@dataclass(slots=True)
class Report(Plan):
    """What a verb has done.

    Attributes:
        seconds: how long it took.
        verified: whether the result was read back and agrees with what was to be written.
    """

    seconds: float = 0.0
    verified: bool = False

    @classmethod
    def of(cls, plan: Plan, seconds: float, *, verified: bool = False) -> Report:
        """The report of a plan that was carried out."""
        return cls(**{each.name: getattr(plan, each.name) for each in fields(plan)}, seconds=seconds, verified=verified)

    def lines(self) -> Iterator[str]:
        """The report for people, line by line."""
        yield from Plan.lines(self)
        yield f"done in {self.seconds:.1f} s{', and read back' if self.verified else ''}"


def _line_of(store: StorePlan) -> str:
    text = f"{store.name}: {store.partitions_in} partitions"
    if store.partitions_out != store.partitions_in:
        text += f" become {store.partitions_out}"
    if store.rows_in is not None:
        text += f", {store.rows_in:,} rows"
        if store.rows_out is not None and store.rows_out != store.rows_in:
            text += f" become {store.rows_out:,}"
    if store.bytes_in is not None:
        text += f", {store.bytes_in:,} bytes of keys and values"
    if store.bytes_out is not None:
        text += f", {store.bytes_out:,} bytes of files"
    return text if store.placement is None else f"{text}, by {store.placement}"
