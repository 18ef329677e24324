"""Memory that was freed goes back to the system."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from hdfsstore.state.trim_memory import trim_memory


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries keep nothing")
def test_holes_between_what_is_used_are_trimmed() -> None:
    # Larger than what Python allocates by itself, and smaller than what the C library maps by itself.
    blocks = [bytes(10_000) for _ in range(20_000)]
    blocks[:] = blocks[-1:]
    kept = resident_bytes()
    trim_memory()
    assert kept - resident_bytes() > 150_000_000
