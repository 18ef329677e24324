"""What the system's page cache has of files, on Linux."""

from __future__ import annotations

import ctypes
import mmap
import os
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

_LIBC = ctypes.CDLL(None, use_errno=True)


def cached_bytes(folder: Path) -> int:
    """The bytes of the files below a folder that are in memory, whoever has read or written them."""
    return sum(_cached_bytes(path) for path in folder.rglob("*") if path.is_file())


def _cached_bytes(path: Path) -> int:
    with suppress(FileNotFoundError), path.open("rb") as file:
        if size := os.fstat(file.fileno()).st_size:
            with mmap.mmap(file.fileno(), size, prot=mmap.PROT_READ) as mapped:
                pages = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()
                address = ctypes.c_void_p(pa.py_buffer(mapped).address)
                if _LIBC.mincore(address, ctypes.c_size_t(size), pages):
                    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(path))
                return sum(page & 1 for page in pages) * mmap.PAGESIZE
    return 0
