from collections.abc import Callable
from typing import Any

PLAIN: frozenset[type]
"""Types of values that `update` takes as they are."""

class ColumnsState:
    """The fields of a GroupState, and those of its methods that say no more than them; its other methods are PySpark's.

    It is made for a class that inherits from it and then from GroupState, and that has `_plain`, which gives NumPy's
    and pandas' scalars as Python's.

    Args:
        value: the state's columns; None where the key has no state.
    """

    _value: Any
    _defined: bool
    _updated: bool
    _removed: bool
    _timeout_timestamp: Any

    def __init__(self, value: Any) -> None: ...
    @property
    def exists(self) -> bool: ...
    @property
    def get(self) -> Any: ...
    @property
    def getOption(self) -> Any: ...
    def update(self, newValue: Any) -> None:
        """Sets the value of the state, a tuple or Row of its columns, which cannot be None.

        NumPy's and pandas' scalars become Python's, as in PySpark.
        """

    def remove(self) -> None: ...

class ValueState(ColumnsState):
    """The same of a state that is one Python value and no tuple of columns.

    It is kept as it is when the function has ended with this key. A class that inherits from it has `_check`, which
    `update` calls with the value, and which raises where it cannot be kept.
    """

class Notes:
    """What functions have done to the states of some keys.

    Values are kept by column: a tuple for each key would grow old, and make Python's garbage collector look for others.

    Args:
        width: how many columns a state has.
        accept: gives the columns of a value that the function has set, by the key's number and the value.
        is_plain: a tuple of so many values is its columns as it is.

    Attributes:
        removed: keys whose state is removed, by their number.
        put: keys whose state or timeout is set.
        is_there, columns, timeouts: of those; whether there is a value, None in its columns where there is none, and
            -1 where there is no timeout.
    """

    removed: list[int]
    put: list[int]
    is_there: list[bool]
    columns: list[list[Any]]
    timeouts: list[float]

    def __init__(self, width: int, accept: Callable[[int, Any], tuple[Any, ...]], is_plain: bool) -> None: ...
    def keep(self, index: int, state: ColumnsState) -> None:
        """Notes what the function has done to the state of a key, once it has ended."""

    def clear(self) -> None: ...
