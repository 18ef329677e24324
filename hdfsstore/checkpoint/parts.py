"""What of an operator's state is read by itself: a store; of one with column families a variable, timers or a side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hdfsstore.checkpoint.join_state import SIDES
from hdfsstore.checkpoint.operators import JOIN, Operator, Store
from hdfsstore.checkpoint.state_variables import has_timers, state_variables


@dataclass(frozen=True, slots=True)
class Part:
    """A part of an operator's state.

    Attributes:
        name: of the store or state variable; "timers"; "left" or "right" for a side of a join.
        arguments: those of Checkpoint.read_state that give it, but for the operator.
    """

    name: str
    arguments: Mapping[str, Any]


def parts_of_operator(operator: Operator) -> Iterator[Part]:
    """The stores without column families, then the parts of those with them."""
    for store in operator.stores:
        if not store.has_families:
            yield Part(store.name, {"store_name": store.name})
    if any(store.has_families for store in operator.stores):
        yield from _of_families(operator)


def parts_of_store(operator: Operator, store: Store) -> list[Part]:
    """The parts of one store, which is its only part if it has no column families."""
    if store.has_families:
        return list(_of_families(operator))
    return [Part(store.name, {"store_name": store.name})]


def _of_families(operator: Operator) -> Iterator[Part]:
    for variable in state_variables(operator):
        yield Part(variable, {"state_var": variable})
    if has_timers(operator):
        yield Part("timers", {"read_registered_timers": True})
    if operator.name == JOIN:
        for side in SIDES:
            yield Part(side, {"join_side": side})
