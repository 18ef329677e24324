from collections.abc import Callable
from typing import Any

PLAIN: frozenset[type]
"""Types of values that `update` takes unchanged."""

class ColumnsState:
    """The fields of a GroupState, and the methods that only read or set them. The other methods are PySpark's.

    A subclass inherits from it first, and then from GroupState. It has `_plain`, which converts NumPy's and pandas'
    scalars to Python's.

    Args:
        value: the state's columns; None if the key has no state.
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
        """Sets the value of the state: a tuple or Row of its columns, not None.

        NumPy's and pandas' scalars become Python's, as in PySpark.
        """

    def remove(self) -> None: ...

class ValueState(ColumnsState):
    """The same for a state that is one Python value instead of a tuple of columns.

    The value is stored as it is at the end of the function for this key. A subclass has `_check`, which `update` calls
    with the value. It raises an error if the value cannot be stored.
    """

class Notes:
    """Collects what functions have done to the states of some keys.

    Values are kept by column: a tuple for each key would live long, and make Python's garbage collector run more often.

    Args:
        width: number of columns of a state.
        accept: returns the columns of a value that the function has set, given the key's number and the value.
        is_plain: whether a tuple of `width` values is used as the columns unchanged.

    Attributes:
        removed: numbers of the keys whose state is removed.
        put: numbers of the keys whose state or timeout is set.
        is_there, columns, timeouts: for each key of `put` whether there is a value, its columns (None without a value),
            and its timeout (-1: none).
    """

    removed: list[int]
    put: list[int]
    is_there: list[bool]
    columns: list[list[Any]]
    timeouts: list[float]

    def __init__(self, width: int, accept: Callable[[int, Any], tuple[Any, ...]], is_plain: bool) -> None: ...
    def keep(self, index: int, state: ColumnsState) -> None:
        """Collects what the function has done to the state of a key, after it has ended."""

    def clear(self) -> None: ...
