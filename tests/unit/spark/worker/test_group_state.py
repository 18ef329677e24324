"""Compares every method of our GroupState for one key with PySpark's own class."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pyspark.sql import Row
from pyspark.sql.streaming.state import GroupState
from pyspark.sql.types import StructType

from hdfsstore.spark.worker.group_state import KeyValue, key_state_class

CONFS = ("NoTimeout", "ProcessingTimeTimeout", "EventTimeTimeout")
STEPS: dict[str, Callable[[GroupState], Any]] = {
    "exists": lambda state: state.exists,
    "get": lambda state: state.get,
    "getOption": lambda state: state.getOption,
    "hasTimedOut": lambda state: state.hasTimedOut,
    "oldTimeoutTimestamp": lambda state: state.oldTimeoutTimestamp,
    "str": str,
    "watermark": lambda state: state.getCurrentWatermarkMs(),
    "processing time": lambda state: state.getCurrentProcessingTimeMs(),
    "json": lambda state: state.json(),
    "remove": lambda state: state.remove(),
    "update": lambda state: state.update((1, "a")),
    "update with a Row": lambda state: state.update(Row(count=2, name=None)),
    "update with a list": lambda state: state.update([3, "c"]),  # type: ignore[arg-type]
    "update with None": lambda state: state.update(None),  # type: ignore[arg-type]
    "update with a number": lambda state: state.update(3),  # type: ignore[arg-type]
    "update with NumPy": lambda state: state.update((np.int64(3), np.str_("x"))),
    "update with times of NumPy": lambda state: state.update((np.datetime64(1, "s"), np.timedelta64(1, "s"))),
    "update with times of pandas": lambda state: state.update((pd.Timestamp(0), pd.Timedelta(1, "s"))),
    "duration": lambda state: state.setTimeoutDuration(5_000),
    "duration of nothing": lambda state: state.setTimeoutDuration(0),
    "duration as text": lambda state: state.setTimeoutDuration("1 hour"),  # type: ignore[arg-type]
    "timestamp": lambda state: state.setTimeoutTimestamp(70_000),
    "timestamp at the watermark": lambda state: state.setTimeoutTimestamp(60_000),
    "timestamp as a datetime": lambda state: state.setTimeoutTimestamp(
        datetime.datetime(2024, 2, 29)  # type: ignore[arg-type]
    ),
    "timestamp before the watermark": lambda state: state.setTimeoutTimestamp(50_000),
    "timestamp of nothing": lambda state: state.setTimeoutTimestamp(0),
}
CHANGES = ("remove", "update", "duration", "timestamp")


def outcome(step: Callable[[GroupState], Any], state: GroupState) -> tuple[Any, ...]:
    try:
        value = step(state)
    except Exception as error:  # noqa: BLE001 - PySpark's own errors are compared, whichever they are
        return type(error), str(error)
    return type(value), value


@pytest.mark.parametrize("watermark_ms", [-1, 60_000])
@pytest.mark.parametrize("timeout_conf", CONFS)
@pytest.mark.parametrize("value", [None, (7, "g")])
def test_does_and_refuses_what_pysparks_class_does(
    value: tuple[Any, ...] | None, timeout_conf: str, watermark_ms: int
) -> None:
    ours_of = key_state_class(timeout_conf, 90_000, watermark_ms, has_timed_out=timeout_conf != "NoTimeout")
    for change in (None, *CHANGES):
        for name, step in STEPS.items():
            ours = ours_of(value)
            theirs = GroupState(
                optionalValue=None if value is None else Row(*value),
                batchProcessingTimeMs=90_000,
                eventTimeWatermarkMs=watermark_ms,
                timeoutConf=timeout_conf,
                hasTimedOut=timeout_conf != "NoTimeout",
                watermarkPresent=watermark_ms != -1,
                defined=value is not None,
                updated=False,
                removed=False,
                timeoutTimestamp=-1,
                keyAsUnsafe=b"",
                valueSchema=StructType(),
            )
            if change is not None:
                assert outcome(STEPS[change], ours) == outcome(STEPS[change], theirs)
            assert outcome(step, ours) == outcome(step, theirs), (change, name)
            for look in ("exists", "getOption", "str", "json"):
                assert outcome(STEPS[look], ours) == outcome(STEPS[look], theirs), (change, name, look)


def test_is_one_of_pysparks_class() -> None:
    assert isinstance(key_state_class("NoTimeout", 1, -1)(None), GroupState)


def test_one_value_is_kept_as_it_is() -> None:
    state = key_state_class("NoTimeout", 1, -1, base=KeyValue)(None)
    assert state.getOption is None
    with pytest.raises(ValueError, match="STATE_NOT_EXISTS"):
        _ = state.get
    value = {"a": [1, 2]}
    state.update(value)
    assert state.get is value
    assert state.getOption is value
    with pytest.raises(TypeError, match="None"):
        state.update(None)
    state.remove()
    assert not state.exists
    assert state.getOption is None
