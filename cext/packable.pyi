from typing import Any

DEPTH: int
"""How deep lists and dicts may be nested: every release of msgpack packs and unpacks that much."""

def packable(value: Any) -> Any:
    """A value such as msgpack gives it back, but for tuples, which are lists then, and the zones of datetimes.

    It is the value itself where all in it is of types that msgpack has. Otherwise it is a copy, in which scalars of
    NumPy and pandas, and values of subclasses, are Python's own.

    Raises:
        TypeError: there is a value of another type, or a key of a dict that does not come back as one.
        ValueError: there is a number, string or datetime that does not come back, dicts and lists are nested deeper
            than DEPTH, or two keys of a dict come back as one.
    """
