"""Bytes that wait in memory, and in a file that is not kept open."""

from __future__ import annotations

from pathlib import Path

import pytest

from hdfsstore.errors import StateStoreError
from hdfsstore.repair.spool import Spool


@pytest.mark.parametrize("memory", [0, 10, 1 << 20])
def test_the_bytes_come_back_in_their_order(memory: int, tmp_path: Path) -> None:
    spool = Spool(tmp_path / "0", memory)
    written = [bytes([i]) * (i * 7) for i in range(40)]
    for piece in written:
        spool.write(piece)
    assert spool.size == sum(map(len, written))
    assert b"".join(spool.pieces()) == b"".join(written)
    assert (tmp_path / "0").exists() == (memory < spool.size)
    spool.close()
    assert not list(tmp_path.iterdir())


def test_no_file_is_kept_open(tmp_path: Path) -> None:
    """There is one for each partition of a store, and a process may often open 1,024 only."""
    spools = [Spool(tmp_path / str(i), 1) for i in range(30)]
    for spool in spools:
        spool.write(b"more than fits")
    opened = [Path(link).resolve() for link in Path("/proc/self/fd").glob("*")]
    assert not [path for path in opened if path.is_relative_to(tmp_path)]
    assert len(list(tmp_path.iterdir())) == 30


def test_a_folder_that_is_gone_is_a_typed_error(tmp_path: Path) -> None:
    with pytest.raises(StateStoreError, match="could not be written") as caught:
        Spool(tmp_path / "gone" / "0", 0).write(b"x")
    assert caught.value.path == str(tmp_path / "gone" / "0")
