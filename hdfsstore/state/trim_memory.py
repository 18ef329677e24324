"""Gives freed memory back to the system, which allocators otherwise keep for the process's next allocations."""

from __future__ import annotations

import ctypes

import pyarrow as pa

# glibc has it; elsewhere nothing is known to be kept.
_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)


def trim_memory() -> None:
    """To be called after much memory was freed; takes some milliseconds at most, without the GIL."""
    pa.default_memory_pool().release_unused()
    if _trim is not None:
        _trim(0)
