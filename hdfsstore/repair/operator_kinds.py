"""Tells what kind of operator a state is of, and which columns of its keys decide on the partition of a row.

    kind                   Spark's names                              the columns that decide
    aggregation            stateStoreSave                             all
    deduplication          dedupe, dedupeWithinWatermark              all
    group-state            flatMapGroupsWithState,                    all
                           applyInPandasWithState
    session-window         sessionWindowStateStoreSaveExec            all but the last, sessionStartTime
    join                   symmetricHashJoin                          keyToNumValues: all
                                                                      the others: all but the index or event time
    transform-with-state   transformWithState...                      those of the grouping key
    limit                  globalLimit                                none: partition 0

An operator without grouping columns is in partition 0 alone, too. Spark: the required distributions of the operators
(statefulOperators.scala), and the partition key extractors of its own repartition.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hdfsstore.checkpoint.operators import Operator, Store
from hdfsstore.checkpoint.state_schema import DEFAULT_FAMILY
from hdfsstore.checkpoint.state_variables import MAP
from hdfsstore.codecs.types import NullType, StructField, StructType, TimestampType
from hdfsstore.errors import PlacementError

AGGREGATION, DEDUPLICATION, GROUP_STATE = "aggregation", "deduplication", "group-state"
SESSION_WINDOW, JOIN, TRANSFORM, LIMIT = "session-window", "join", "transform-with-state", "limit"
_NAMES = {
    "stateStoreSave": AGGREGATION,
    "dedupe": DEDUPLICATION,
    "dedupeWithinWatermark": DEDUPLICATION,
    "flatMapGroupsWithState": GROUP_STATE,
    "applyInPandasWithState": GROUP_STATE,
    "sessionWindowStateStoreSaveExec": SESSION_WINDOW,
    "symmetricHashJoin": JOIN,
    "transformWithStateExec": TRANSFORM,
    "transformWithStateInPandasExec": TRANSFORM,
    "transformWithStateInPySparkExec": TRANSFORM,
    "globalLimit": LIMIT,
}
KINDS = tuple(dict.fromkeys(_NAMES.values()))
_JOIN_STORES = ("keyToNumValues", "keyWithIndexToValue", "keyWithTsToValues", "tsWithKey")
_LIMIT_KEY = (StructField("key", NullType()),)
_TTL, _TIMESTAMP_TO_KEY, _KEY_TO_TIMESTAMP = "$ttl_", "_timestampToKey", "_keyToTimestamp"
# Families beside a variable's own whose key is the grouping key.
_BY_GROUPING_KEY = ("$rowCounter_", "$count_", "$min_")


@dataclass(frozen=True, slots=True)
class Columns:
    """Columns of a key: the fields of a struct in it.

    Attributes:
        path: the places of the fields that lead to the struct; empty: the key itself.
        without_last: whether the last field is left out.
    """

    path: tuple[int, ...] = ()
    without_last: bool = False


ALL_COLUMNS = Columns()


def possible_kinds(operator: Operator, kind: str | None = None) -> list[str]:
    """The kinds that an operator may be of, the most likely first; several only before Spark 4.0, which has no names.

    Aggregations, deduplications and group states are placed alike, so AGGREGATION stands for all of them.

    Args:
        kind: what the user says it is; it counts where Spark has not named the operator.

    Raises:
        PlacementError: there is no such kind, or the operator is of another one, or of none that is known.
    """
    if kind is not None and kind not in KINDS:
        raise PlacementError(f"there is no kind of operator {kind!r}", remedy=f"The kinds are {', '.join(KINDS)}")
    if operator.name is None:
        return [kind] if kind else _by_stores(operator)
    known = _NAMES.get(operator.name)
    if known is None:
        raise PlacementError(
            f"operator {operator.operator_id} is a {operator.name!r}, and how Spark places its rows is not known here",
            remedy=f"The operators that are known: {', '.join(_NAMES)}",
        )
    if kind not in (None, known):
        raise PlacementError(
            f"operator {operator.operator_id} is a {operator.name!r}, of kind {known}, and not {kind}",
            remedy="Leave --operator-kind out: Spark has named the operator",
        )
    return [known]


def _by_stores(operator: Operator) -> list[str]:
    if all(_join_part(store.name) in _JOIN_STORES for store in operator.stores):
        return [JOIN]
    fields = operator.stores[0].key_type.fields if operator.stores[0].key_type else ()
    if fields == _LIMIT_KEY:
        return [LIMIT]
    if fields and (fields[-1].name, fields[-1].type) == ("sessionStartTime", TimestampType()):
        return [SESSION_WINDOW, AGGREGATION]
    return [AGGREGATION]


def deciding_columns(kind: str, operator: Operator, store: Store, family: str, key_type: StructType) -> Columns | None:
    """The columns that decide on the partition of a row.

    Args:
        kind: of the operator.
        family: DEFAULT_FAMILY in a store without column families.
        key_type: of the keys there.

    Returns:
        None: the rows are in partition 0.

    Raises:
        PlacementError: an operator of this kind has no such store or family, or not with such keys.
    """
    if kind == LIMIT or not key_type.fields:
        return None
    if kind == TRANSFORM:
        columns = _of_variable(operator, family) or _of_no_variable(store, family)
    elif kind == JOIN:
        part = _join_part(store.name if family == DEFAULT_FAMILY else family)
        columns = Columns(without_last=part != "keyToNumValues") if part in _JOIN_STORES else None
    else:
        columns = Columns(without_last=kind == SESSION_WINDOW) if family == DEFAULT_FAMILY else None
    if columns is None or (decides := columns_type(columns, key_type)) is None:
        where = f"the store {store.name!r}" if family == DEFAULT_FAMILY else f"the column family {family!r}"
        raise PlacementError(
            f"{where} is not one that an operator of kind {kind} has, so where its rows belong is not known",
            store.schema_path,
            remedy="Nothing was changed" if operator.name else f"Give another --operator-kind: {', '.join(KINDS)}",
        )
    return columns if decides.fields else None


def columns_type(columns: Columns, key_type: StructType) -> StructType | None:
    """The type of these columns of a key; None: there is no such struct."""
    struct = key_type
    for place in columns.path:
        nested = struct.fields[place].type if place < len(struct.fields) else None
        if not isinstance(nested, StructType):
            return None
        struct = nested
    return StructType(struct.fields[:-1]) if columns.without_last else struct


def _join_part(name: str) -> str:
    side, _, part = name.partition("-")
    return part if side in ("left", "right") else ""


def _of_no_variable(store: Store, family: str) -> Columns | None:
    """The API of the JVM declares the family `default`, which has no rows, with the grouping key."""
    return ALL_COLUMNS if family == DEFAULT_FAMILY and store.has_families else None


def _of_variable(operator: Operator, family: str) -> Columns | None:
    """The grouping key in the keys of a family of transformWithState."""
    kinds: Mapping[str, str] = {
        each["stateName"]: each["stateVariableType"] for each in operator.properties.get("stateVariables", [])
    }
    if family.startswith("$") and family.endswith(_TIMESTAMP_TO_KEY):
        return Columns((1,))
    if family.startswith("$") and family.endswith(_KEY_TO_TIMESTAMP):
        return Columns((0,))
    if family.startswith(_TTL):
        kind = kinds.get(family.removeprefix(_TTL))
        return None if kind is None else Columns((1, 0) if kind == MAP else (1,))
    if family.startswith(_BY_GROUPING_KEY):
        return ALL_COLUMNS
    kind = kinds.get(family)
    return None if kind is None else Columns((0,) if kind == MAP else ())
