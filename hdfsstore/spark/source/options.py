"""The options of the source `hdfsstore`: those of Spark's `statestore`, and columns, where and pushFilters."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

from hdfsstore.checkpoint.join_state import SIDES
from hdfsstore.checkpoint.operators import DEFAULT_STORE
from hdfsstore.checkpoint.row_shape import RowShape
from hdfsstore.checkpoint.state_request import StateRequest
from hdfsstore.errors import StateStoreError, UnsupportedSettingError

NAMES = (
    "path",
    "batchId",
    "operatorId",
    "storeName",
    "joinSide",
    "stateVarName",
    "flattenCollectionTypes",
    "readRegisteredTimers",
    "readChangeFeed",
    "changeStartBatchId",
    "changeEndBatchId",
    "columns",
    "where",
    "pushFilters",
)


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What a query reads.

    Attributes:
        path: of the checkpoint, as the user gave it.
        request: the rows; without a batch: those of the newest committed one.
        changes_from: the first batch of a change feed, whose last one is the request's; None: the state.
        push_filters: whether Spark's filters are pushed down; None: not said.
    """

    path: str
    request: StateRequest
    changes_from: int | None
    push_filters: bool | None

    def at(self, batch_id: int) -> SourceOptions:
        """The same with the batch that was found."""
        return replace(self, request=replace(self.request, batch_id=batch_id))


def parse_options(given: Mapping[str, str]) -> SourceOptions:
    """The options by their names, in any case.

    Raises:
        UnsupportedSettingError: there is no option of a name.
        StateStoreError: one is missing, its value makes no sense, or two exclude each other.
    """
    known = {name.lower(): name for name in NAMES}
    options: dict[str, str] = {}
    for name, value in given.items():
        if name.lower() not in known:
            near = difflib.get_close_matches(name.lower(), known, 1)
            meant = f"{known[near[0]]!r} is the nearest. " if near else ""
            raise UnsupportedSettingError(
                f"the source hdfsstore has no option {name!r}", remedy=f"{meant}There are {', '.join(NAMES)}"
            )
        options[known[name.lower()]] = value
    if not options.get("path"):
        raise StateStoreError("the source hdfsstore needs a path", remedy="Give the checkpoint to load(...)")
    feed = _boolean(options, "readChangeFeed", False)
    _refuse_pairs(options, feed)
    side = options.get("joinSide", "none").lower()
    request = StateRequest(
        operator_id=_number(options, "operatorId") or 0,
        store_name=options.get("storeName", DEFAULT_STORE),
        batch_id=_number(options, "changeEndBatchId" if feed else "batchId"),
        join_side=None if side == "none" else side,  # type: ignore[arg-type]
        partitions=None,
        key_schema=None,
        value_schema=None,
        state_var=options.get("stateVarName"),
        flatten_collections=_boolean(options, "flattenCollectionTypes", True),
        read_registered_timers=_boolean(options, "readRegisteredTimers", False),
        # Spark's Arrow reader does not take a struct with two fields of one name.
        shape=RowShape(_columns(options), options.get("where"), unique_names=True),
    )
    pushes = _boolean(options, "pushFilters", False) if "pushFilters" in options else None
    return SourceOptions(options["path"], request, _number(options, "changeStartBatchId"), pushes)


def _refuse_pairs(options: Mapping[str, str], feed: bool) -> None:
    side = options.get("joinSide", "none").lower()
    if side not in ("none", *SIDES):
        raise StateStoreError(f"a join has no side {side!r}", remedy=f"Its sides are {' and '.join(SIDES)}")
    if side != "none" and "storeName" in options:
        raise StateStoreError("joinSide and storeName exclude each other", remedy="Give one of them")
    if feed and "changeStartBatchId" not in options:
        raise StateStoreError("readChangeFeed needs the first batch", remedy="Give the option changeStartBatchId")
    if feed and (side != "none" or "batchId" in options):
        other = "joinSide" if side != "none" else "batchId"
        raise StateStoreError(f"readChangeFeed and {other} exclude each other", remedy="Give one of them")
    if not feed and (named := [name for name in ("changeStartBatchId", "changeEndBatchId") if name in options]):
        raise StateStoreError(f"{named[0]} is given without readChangeFeed", remedy="Set readChangeFeed to true")


def _columns(options: Mapping[str, str]) -> list[str] | None:
    """Names between commas, or as a JSON array if a name has a comma."""
    text = options.get("columns")
    if text is None:
        return None
    if not text.lstrip().startswith("["):
        return [name.strip() for name in text.split(",")]
    try:
        names = json.loads(text)
    except ValueError:
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise _senseless("columns", text, "names between commas, or a JSON array of names, are needed")
    return names


def _number(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    if not text.strip().isdecimal():
        raise _senseless(name, text, "a number from 0 on is needed")
    return int(text)


def _boolean(options: Mapping[str, str], name: str, default: bool) -> bool:
    text = options.get(name, str(default)).strip().lower()
    if text not in ("true", "false"):
        raise _senseless(name, text, "true or false is needed")
    return text == "true"


def _senseless(name: str, value: str, needed: str) -> StateStoreError:
    return StateStoreError(f"the option {name} is {value!r}: {needed}")
