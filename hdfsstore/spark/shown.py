"""Keys, values and errors of the user's in messages: cut short, and left out where hdfsstore.redactErrors says so."""

from __future__ import annotations

import reprlib
import traceback
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
    """How messages show what is the user's.

    Args:
        redacted: whether keys, values and what errors say, which may be a value, are left out.
    """

    redacted: bool = False

    def value(self, value: Any) -> str:
        """What repr() gives of a value, but some hundred characters at most, however large or deep it is."""
        return LEFT_OUT if self.redacted else _cut(_repr(value), _VALUE_CHARS)

    def key(self, keys: pa.StructArray) -> str:
        """The first of some keys."""
        if self.redacted:
            return LEFT_OUT
        values = zip((field.name for field in keys.type), keys.flatten(), strict=True)
        text = ", ".join(f"{name}={self.value(column[0].as_py())}" for name, column in values)
        return f"({_cut(text, _ERROR_CHARS)})"

    def error(self, error: BaseException) -> str:
        """What an error is and says."""
        return f"{type(error).__qualname__}{self.because(error)}"

    def because(self, error: BaseException) -> str:
        """What an error says, to be put behind a message."""
        said = "" if self.redacted else _said(error)
        return f": {said}" if said else ""

    def trace(self, error: BaseException, trace: TracebackType | None) -> str:
        """The traceback of an error, and before it those of the errors that led to it."""
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


class _Short(reprlib.Repr):
    """repr() of the beginning of a value."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 4
        self.maxtuple = self.maxlist = self.maxdict = self.maxset = self.maxfrozenset = self.maxdeque = 10
        self.maxarray = 10
        self.maxstring = self.maxlong = self.maxother = 100

    def repr1(self, x: Any, level: int) -> str:
        # Subclasses too, which reprlib, going by the names of classes, would give to repr() as a whole.
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
        return super().repr1(x, level)

    def repr_dict(self, x: dict[Any, Any], level: int) -> str:
        """In the order of the dict, all of which reprlib would sort."""
        if not x or level <= 0:
            return "{...}" if x else "{}"
        some = [f"{self.repr1(k, level - 1)}: {self.repr1(v, level - 1)}" for k, v in islice(x.items(), self.maxdict)]
        return f"{{{', '.join(some)}{', ...' * (len(x) > self.maxdict)}}}"


_short = _Short()


def _repr(value: Any) -> str:
    try:
        return _short.repr(value)
    except Exception:  # noqa: BLE001 - what the user's own __repr__ raises
        return f"<{type(value).__qualname__}>"


def _said(error: BaseException) -> str:
    try:
        # PySpark sends it as UTF-8, which surrogates have no place in.
        return _cut(str(error), _ERROR_CHARS).encode(errors="backslashreplace").decode()
    except Exception:  # noqa: BLE001 - what the user's own __str__ raises
        return ""


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}..."
