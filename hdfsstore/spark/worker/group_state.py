"""Make the GroupState that functions of one key get: PySpark's own class, with a constructor that costs very little.

When the function has ended, Spark writes (seen on 4.3; PySpark never compares the timeout with the stored one):

    removed, no timeout set           the key is removed
    updated, or a timeout was set     the state, null where there is none, and the timeout set; -1, none, if it was not
    else                              nothing: the key keeps its state and its timeout, which fires again if expired
"""

from __future__ import annotations

import sys
from typing import Any

from pyspark.sql.streaming.state import GroupState

from hdfsstore._cext.group_state import PLAIN, ColumnsState, ValueState
from hdfsstore._cext.packable import packable

NO_TIMEOUT = -1
NO_WATERMARK = -1


class KeyState(ColumnsState, GroupState):
    """The state of one key in one call of the user's function; made by the classes that `key_state_class` gives.

    It has PySpark's `get`, `update`, `remove`, timeouts and checks, but not its transport to the JVM. The class has
    what all keys of a task share; an instance has its value and what the function did to it.

    Args:
        value: the state's columns; None where the key has no state.
    """

    _old_timeout_timestamp = NO_TIMEOUT

    @staticmethod
    def _plain(value: Any) -> Any:
        return plain_value(value)


class KeyValue(ValueState, KeyState):
    """A KeyState whose state is one Python value instead of a tuple of columns.

    `update` raises TypeError or ValueError for a value that would not come back equal.
    """

    _check = staticmethod(packable)


def key_state_class(
    timeout_conf: str,
    processing_time_ms: int,
    watermark_ms: int,
    *,
    has_timed_out: bool = False,
    base: type[KeyState] = KeyState,
) -> type[KeyState]:
    """The class of the states that a task gives to the user's function.

    Args:
        timeout_conf: NoTimeout, ProcessingTimeTimeout or EventTimeTimeout.
        processing_time_ms: of the batch.
        watermark_ms: of the batch; NO_WATERMARK where the query has none.
        has_timed_out: whether the function is called because the keys have expired.
        base: KeyState, or KeyValue for a state that is one Python value.
    """
    constants = {
        "_timeout_conf": timeout_conf,
        "_batch_processing_time_ms": processing_time_ms,
        "_event_time_watermark_ms": watermark_ms,
        "_watermark_present": watermark_ms != NO_WATERMARK,
        "_has_timed_out": has_timed_out,
    }
    return type("GroupState", (base,), constants)


def plain_value(value: Any) -> Any:
    """Converts NumPy's and pandas' scalars to Python's."""
    if type(value) in PLAIN:
        return value
    numpy = sys.modules.get("numpy")  # if it is not imported, no value is NumPy's
    if numpy is not None and isinstance(value, numpy.generic):
        return value.tolist()
    if hasattr(value, "to_pytimedelta"):
        return value.to_pytimedelta()
    if hasattr(value, "to_pydatetime"):
        return value.to_pydatetime()
    return value
