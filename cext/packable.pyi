from typing import Any

DEPTH: int
"""How deep lists and dicts may be nested. Every release of msgpack packs and unpacks this depth."""

def packable(value: Any) -> Any:
    """Returns a value that msgpack packs and unpacks unchanged, except that tuples become lists and zones UTC.

    It is the given value if all types in it are msgpack's. Otherwise it is a copy, in which scalars of NumPy and
    pandas, and values of subclasses, are Python's own.

    Raises:
        TypeError: there is a value of another type, or a dict's key would not be unpacked as a key.
        ValueError: a number, string or datetime would not be unpacked unchanged, dicts and lists are nested deeper
            than DEPTH, or two keys of a dict would be unpacked as one.
    """
