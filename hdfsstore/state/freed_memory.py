"""Gives freed memory back to the system, which the C library otherwise keeps for the process's next allocations."""

from __future__ import annotations

import ctypes

# glibc has it; elsewhere nothing is known to be kept.
_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)


def give_back() -> None:
    """To be called after work that took much memory for a short time; takes some milliseconds, without the GIL."""
    if _trim is not None:
        _trim(0)
