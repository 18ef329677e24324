"""Each kind of file of a checkpoint cut at every byte, and every byte of it changed."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import hdfsstore
from tests.support.truth import DATA

pytestmark = pytest.mark.thorough

SOURCE = DATA / "spark-4.3.0/drop_duplicates/checkpoint"
# The logs' entries are alike: the last of each stands for all.
LAST = {str(max((SOURCE / log).glob("[0-9]*")).relative_to(SOURCE)) for log in ("offsets", "commits")}
FILES = sorted(
    name
    for name in (str(path.relative_to(SOURCE)) for path in SOURCE.rglob("[!.]*") if path.is_file())
    if not name.startswith("sources/") and (name in LAST or not name.startswith(("offsets/", "commits/")))
)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SOURCE, tmp_path / "checkpoint"))


def facts(path: Path) -> object:
    """All that the logs, the metadata and the schemas tell."""
    checkpoint = hdfsstore.Checkpoint(path)
    if checkpoint.damaged:
        raise checkpoint.damaged[0]
    stores = [(op.operator_id, op.name, store) for op in checkpoint.operators for store in op.stores]
    schemas = [
        (*names, store.name, store.num_partitions, store.key_schema, store.value_schema) for *names, store in stores
    ]
    return checkpoint.query_id, checkpoint.batches, schemas


def damaged(content: bytes) -> Iterator[tuple[str, bytes]]:
    for at in range(len(content)):
        yield f"cut at byte {at}", content[:at]
        yield f"byte {at} changed", content[:at] + bytes([content[at] ^ (1 << at % 8)]) + content[at + 1 :]


def outcome(read: Callable[[], object]) -> object:
    """What was read, or the StateStoreError; any other error fails the test."""
    try:
        return read()
    except hdfsstore.StateStoreError as error:
        return error


def reader(copy: Path, name: str) -> Callable[[], object]:
    """Reads what the file is about."""
    if name.endswith(".delta"):
        checkpoint = hdfsstore.Checkpoint(copy, num_threads=1)
        # There is no snapshot: the newest state needs every delta. Rows come in the order of the files.
        return checkpoint.read_state
    return lambda: facts(copy)


@pytest.mark.parametrize("name", FILES)
def test_a_checksum_file_tells_of_every_damage(copy: Path, name: str) -> None:
    read, path = reader(copy, name), copy / name
    read()
    for what, bad in damaged(path.read_bytes()):
        path.write_bytes(bad)
        error = outcome(read)
        assert isinstance(error, hdfsstore.StateStoreError), what
        assert path.name in str(error), what


@pytest.mark.parametrize("name", [name for name in FILES if name.endswith(".delta")])
def test_lz4_files_alone_give_the_truth_or_an_error_with_its_place(copy: Path, name: str) -> None:
    read, path = reader(copy, name), copy / name
    expected = read()
    path.with_name(f".{path.name}.crc").unlink()
    for what, bad in damaged(path.read_bytes()):
        path.write_bytes(bad)
        got = outcome(read)
        if isinstance(got, hdfsstore.StateStoreError):
            assert got.path is not None, what
            assert got.path.endswith(name), what
            assert got.offset is not None, what
        else:
            assert got == expected, what


@pytest.mark.parametrize("name", [name for name in FILES if not name.endswith(".delta")])
def test_logs_and_schemas_alone_never_end_in_another_error(copy: Path, name: str) -> None:
    """JSON has no checksum, so a changed byte may tell another story; but it is told, or it is a StateStoreError."""
    read, path = reader(copy, name), copy / name
    content = path.read_bytes()
    path.with_name(f".{path.name}.crc").unlink()
    errors = 0
    for _, bad in damaged(content):
        path.write_bytes(bad)
        errors += isinstance(outcome(read), hdfsstore.StateStoreError)
    assert errors >= len(content) // 2
