"""What Spark read of one store, state variable or side of a join after each batch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from _pytest.mark import ParameterSet

from tests.support.truth import Case, Read, few


@dataclass(frozen=True)
class StateOverTime:
    """The reads of the same rows after several batches."""

    case: Case
    reads: tuple[Read, ...]

    @property
    def arguments(self) -> dict[str, Any]:
        """Those of Checkpoint that give these rows."""
        facts = self.reads[0].facts
        return {
            "operator_id": facts["operator_id"],
            "store_name": facts["store_name"],
            "state_var": facts.get("state_variable"),
            "join_side": facts["join_side"],
            "flatten_collections": not facts.get("nested"),
            "read_registered_timers": bool(facts.get("timers")),
        }

    @property
    def kind(self) -> tuple[Any, ...]:
        """What is read, apart from the case."""
        return tuple(self.arguments.values())

    @property
    def rows(self) -> dict[int, pa.Table]:
        """Batch -> the rows with the columns of Checkpoint.read_state."""
        return {
            read.facts["batch_id"]: read.rows.drop_columns(
                [name for name in read.rows.column_names if name == "key_hash"]
            )
            for read in self.reads
        }

    def __str__(self) -> str:
        return f"{self.case}-{self.reads[0].facts['file'].removesuffix('.arrow')}"


def over_time(reads: Iterable[Read]) -> list[ParameterSet]:
    """The states of which Spark read several batches, as parameters of a test."""
    found: dict[tuple[Any, ...], list[Read]] = {}
    for read in reads:
        of = StateOverTime(read.case, (read,))
        if read.facts["file"] and not read.facts["change_feed"]:
            found.setdefault((read.case, *of.kind), []).append(read)
    states = [
        StateOverTime(of_state[0].case, tuple(sorted(of_state, key=lambda read: read.facts["batch_id"])))
        for of_state in found.values()
        if len(of_state) > 1
    ]
    return few(states, lambda state: state.case, lambda state: state.kind, lambda state: len(state.reads))
