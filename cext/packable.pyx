"""Whether a value comes back out of msgpack's bytes as it was.

In Cython, as a state without a schema is gone through each time that it is set, and once more when it is written.
"""

import datetime
from itertools import islice

from cpython.long cimport PyLong_AsLongLongAndOverflow, PyLong_AsUnsignedLongLong

cdef extern from "Python.h":
    bint PyUnicode_IS_COMPACT_ASCII(object)
    const char* PyUnicode_AsUTF8AndSize(object, Py_ssize_t*) except NULL

# Releases of msgpack pack 511 levels or 1,024, and unpack 1,024.
DEPTH = 511
cdef int MOST = DEPTH
cdef str NO_PLACE = "a state without stateStructType has no place for "
cdef type Time = datetime.datetime
cdef object UTC = datetime.timezone.utc


def packable(value):
    return kept(value, MOST)


cdef kept(value, int levels):
    if is_same(value):
        return value
    cdef type kind = type(value)
    if kind is Time:
        check_time(value)
        return value
    if kind is dict:
        return kept_dict(<dict> value, below(levels))
    if kind is list or kind is tuple:
        return kept_items(value, below(levels))
    # What a subclass holds, and not what its own methods may make of that.
    if isinstance(value, dict):
        return kept_dict(dict(dict.items(value)), below(levels))
    if isinstance(value, list):
        return kept_items(list.__getitem__(value, slice(None)), below(levels))
    if isinstance(value, tuple) and not is_extension(value):
        return kept_items(tuple.__getitem__(value, slice(None)), below(levels))
    return scalar(value)


cdef int below(int levels) except -1:
    if levels == 0:
        raise ValueError(NO_PLACE + f"lists and dicts that are more than {DEPTH} deep")
    return levels - 1


cdef kept_items(values, int levels):
    cdef Py_ssize_t seen = 0
    for item in values:
        new = kept(item, levels)
        if new is not item:
            break
        seen += 1
    else:
        return values
    cdef list copy = list(values[:seen])
    copy.append(new)
    for item in values[seen + 1:]:
        copy.append(kept(item, levels))
    return copy


cdef kept_dict(dict values, int levels):
    cdef dict copy = None  # the same
    cdef Py_ssize_t seen = 0
    for key, item in values.items():
        new_key = key if is_same(key) else kept_key(key)
        new = kept(item, levels)
        if copy is None and new_key is key and new is item:
            seen += 1
            continue
        if copy is None:
            copy = dict(islice(values.items(), seen))
        copy[new_key] = new
    if copy is None:
        return values
    # Two datetimes that differ may be one in UTC.
    if len(copy) != len(values):
        raise ValueError(NO_PLACE + "two keys of a dict that would come back as one")
    return copy


cdef kept_key(key):
    """A key that is not the same."""
    if type(key) is Time:
        check_time(key)
        return key.astimezone(UTC)
    if isinstance(key, tuple) and not is_extension(key):
        raise TypeError(NO_PLACE + f"a dict's key of type {type(key).__name__}, which would come back as a list")
    plain = scalar(key)
    return plain.astimezone(UTC) if type(plain) is Time else plain


cdef bint is_same(value) except -1:
    """Whether it is of a type that is kept and unpacked whatever the value, which has then been checked."""
    cdef type kind = type(value)
    if kind is str:
        return PyUnicode_IS_COMPACT_ASCII(value) or check_str(value)
    if kind is int:
        check_int(value)
        return True
    return value is None or kind is float or kind is bool or kind is bytes


cdef bint check_str(value) except -1:
    cdef Py_ssize_t size = 0
    try:
        PyUnicode_AsUTF8AndSize(value, &size)
    except UnicodeEncodeError:
        raise ValueError(NO_PLACE + "a string with surrogates, which UTF-8 has not") from None
    return True


cdef int check_int(value) except -1:
    cdef int overflow = 0
    PyLong_AsLongLongAndOverflow(value, &overflow)
    if overflow:
        try:
            PyLong_AsUnsignedLongLong(value)
        except OverflowError:
            raise ValueError(NO_PLACE + "an int of more than 64 bits") from None
    return 0


cdef int check_time(value) except -1:
    zone = value.tzinfo
    if zone is None or (zone is not UTC and value.utcoffset() is None):
        raise ValueError(NO_PLACE + "a datetime without a time zone")
    if not 1 < value.year < 9999:
        try:
            value.astimezone(UTC)
        except OverflowError:
            raise ValueError(NO_PLACE + "a datetime that in UTC is not of the years 1 to 9999") from None
    return 0


cdef bint is_extension(value) except -1:
    """Whether it is msgpack's ExtType, a named tuple, which comes back as such."""
    kind = type(value)
    return kind.__name__ == "ExtType" and kind.__module__.startswith("msgpack")


cdef scalar(value):
    """A value that is of none of msgpack's types as one that is, and equals it."""
    if is_extension(value):
        return value
    plain = plain_scalar(value)
    if plain is None:
        raise TypeError(NO_PLACE + f"a value of type {type(value).__name__}")
    if not (plain == value or (plain != plain and value != value)):
        raise ValueError(NO_PLACE + f"a value of type {type(value).__name__} that would come back as another one")
    if type(plain) is Time:
        check_time(plain)
    else:
        is_same(plain)
    return plain


cdef plain_scalar(value):
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    if isinstance(value, bytes):
        return bytes.__getitem__(value, slice(None))
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    # NumPy's numbers, but not its times: some of them are numbers to tolist().
    if getattr(getattr(value, "dtype", None), "kind", "") in ("b", "i", "u", "f") and hasattr(value, "tolist"):
        plain = value.tolist()
        return plain if type(plain) in (bool, int, float) else None
    if hasattr(value, "to_pydatetime") and value == value:  # pandas.Timestamp, but not NaT
        return value.to_pydatetime(warn=False)
    return None
