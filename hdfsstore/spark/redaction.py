"""Shortens the user's keys, values and errors in messages, or leaves them out if hdfsstore.redactErrors is set."""

from __future__ import annotations

import dataclasses
import reprlib
import traceback
from collections.abc import Set
from dataclasses import dataclass
from itertools import islice
from types import TracebackType
from typing import Any

import pyarrow as pa

LEFT_OUT = "<left out by hdfsstore.redactErrors>"
_VALUE_CHARS = 300
_ERROR_CHARS = 1_000


@dataclass(frozen=True, slots=True)
class Shown:
    """Formats the user's data for messages.

    Args:
        redacted: whether to leave out keys, values and the texts of errors, which may contain values.
    """

    redacted: bool = False

    def value(self, value: Any) -> str:
        """The repr() of a value, cut to a few hundred characters. Its cost does not depend on the value's size."""
        return LEFT_OUT if self.redacted else _cut(_repr(value), _VALUE_CHARS)

    def key(self, keys: pa.StructArray) -> str:
        """The first of some keys, by field names."""
        if self.redacted:
            return LEFT_OUT
        values = zip((field.name for field in keys.type), keys.flatten(), strict=True)
        text = ", ".join(f"{name}={_cut(_of_arrow(column[0]), _VALUE_CHARS)}" for name, column in values)
        return f"({_cut(text, _ERROR_CHARS)})"

    def error(self, error: BaseException) -> str:
        """The type of an error, and its text."""
        return f"{type(error).__qualname__}{self.because(error)}"

    def because(self, error: BaseException) -> str:
        """The text of an error after a colon, to append to a message."""
        said = "" if self.redacted else _said(error)
        return f": {said}" if said else ""

    def trace(self, error: BaseException, trace: TracebackType | None) -> str:
        """The traceback of an error, after those of the errors that led to it."""
        parts = []
        seen = set()
        last: BaseException | None = error
        while last is not None and id(last) not in seen:
            seen.add(id(last))
            calls = "".join(traceback.format_tb(trace))
            parts.append(f"Traceback (most recent call last):\n{calls}{self.error(last)}\n")
            last = last.__cause__ or (None if last.__suppress_context__ else last.__context__)
            trace = None if last is None else last.__traceback__
        return "\nThe error above led to this one:\n\n".join(reversed(parts))


def is_raised_here(error: BaseException) -> bool:
    """Whether this package has raised the error, and not a function of the user."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and is_call_here(trace)


def is_call_here(trace: TracebackType) -> bool:
    """Whether a call in a traceback is a function of this package."""
    return str(trace.tb_frame.f_globals.get("__name__", "")).startswith("hdfsstore.")


class _Short(reprlib.Repr):
    """The repr() of the beginning of a value."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 4
        self.maxtuple = self.maxlist = self.maxdict = self.maxset = self.maxfrozenset = self.maxdeque = 10
        self.maxarray = 10
        self.maxstring = self.maxlong = self.maxother = 100

    def repr1(self, x: Any, level: int) -> str:
        # For subclasses too. reprlib goes by the names of classes, and would call repr() on the whole value.
        match x:
            case str():
                return self.repr_str(x, level)
            case bytes() | bytearray():
                return f"{bytes(x[: self.maxstring])!r}{'...' * (len(x) > self.maxstring)}"
            case list():
                return self.repr_list(x, level)
            case tuple():
                return self.repr_tuple(x, level)
            case dict():
                return self.repr_dict(x, level)
            case set() | frozenset():
                return self._repr_any_set(x, level)
        return self._repr_fields(x, level) if _has_repr_of_fields(x) else super().repr1(x, level)

    def repr_dict(self, x: dict[Any, Any], level: int) -> str:
        """Keeps the order of the dict, because reprlib would sort all of it."""
        if not x or level <= 0:
            return "{...}" if x else "{}"
        some = [f"{self.repr1(k, level - 1)}: {self.repr1(v, level - 1)}" for k, v in islice(x.items(), self.maxdict)]
        return f"{{{', '.join(some)}{', ...' * (len(x) > self.maxdict)}}}"

    def _repr_any_set(self, x: Set[Any], level: int) -> str:
        """Shows some values in the set's order, because reprlib would sort all of them."""
        name = type(x).__name__
        if not x or level <= 0:
            return f"{name}({'{...}' * bool(x)})"
        some = ", ".join(self.repr1(item, level - 1) for item in islice(x, self.maxset))
        text = f"{{{some}{', ...' * (len(x) > self.maxset)}}}"
        return text if name == "set" else f"{name}({text})"

    def _repr_fields(self, x: Any, level: int) -> str:
        name = type(x).__qualname__
        if level <= 0:
            return f"{name}(...)"
        shown = [field.name for field in dataclasses.fields(x) if field.repr]
        some = [f"{field}={self.repr1(getattr(x, field), level - 1)}" for field in shown[: self.maxdict]]
        return f"{name}({', '.join(some)}{', ...' * (len(shown) > self.maxdict)})"


_short = _Short()


def _has_repr_of_fields(value: Any) -> bool:
    """Whether its class is a dataclass with the generated __repr__. pprint tells this in the same way."""
    made = getattr(type(value).__repr__, "__wrapped__", None)
    return dataclasses.is_dataclass(value) and "__create_fn__" in getattr(made, "__qualname__", "")


def _repr(value: Any) -> str:
    try:
        return _short.repr(value)
    except BaseException:  # noqa: BLE001 - the user's __repr__ may raise anything
        return f"<{type(value).__qualname__}>"


def _of_arrow(value: pa.Scalar[Any]) -> str:
    try:
        return _repr(value.as_py())
    except Exception:  # noqa: BLE001 - times outside the years 1 to 9999, strings that are not UTF-8
        return _as_string(value)


def _as_string(value: pa.Scalar[Any]) -> str:
    try:
        return str(value.cast(pa.string()).as_py())
    except Exception:  # noqa: BLE001 - structs and lists have no cast; such strings again
        return f"<{value.type}>"


def _said(error: BaseException) -> str:
    try:
        return _cut(str(error), _ERROR_CHARS)
    except BaseException:  # noqa: BLE001 - the user's __str__ may raise anything
        return ""


def _cut(text: str, most: int) -> str:
    # PySpark sends the text as UTF-8, which cannot encode surrogates.
    text = text[: most + 1].encode(errors="backslashreplace").decode()
    return text if len(text) <= most else f"{text[:most]}..."
