"""Returns freed memory to the system, which allocators otherwise keep for later allocations."""

from __future__ import annotations

import ctypes

import pyarrow as pa

# glibc has it. Other allocators are not known to keep memory.
_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)


def trim_memory() -> None:
    """Call it after much memory was freed. It takes some milliseconds at most, without the interpreter lock."""
    pa.default_memory_pool().release_unused()
    if _trim is not None:
        _trim(0)
