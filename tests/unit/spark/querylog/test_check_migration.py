"""Checks a migration while Spark's operator may still run: a refusal by the logs comes before any change."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from hdfsstore import (
    CorruptFileError,
    MissingFileError,
    StateStoreError,
    UnsupportedProviderError,
    UnsupportedQueryError,
)
from hdfsstore.spark.querylog.migration import check_migration, migrate
from tests.unit.spark.querylog.spark_checkpoint import CONF, LAST, WANTED, a_copy

Break = Callable[[Path], object]


def set_conf(checkpoint: Path, name: str, value: str) -> None:
    for path in (checkpoint / "offsets").glob("[0-9]"):
        version, metadata, *sources = path.read_text().split("\n")
        fields = json.loads(metadata)
        fields["conf"][name] = value
        path.write_text("\n".join([version, json.dumps(fields), *sources]))


REFUSED: dict[str, tuple[Break, type[StateStoreError], str]] = {
    "format of the state": (
        lambda path: set_conf(path, "spark.sql.streaming.flatMapGroupsWithState.stateFormatVersion", "1"),
        UnsupportedQueryError,
        "stateFormatVersion=1, not 2",
    ),
    "encoding": (
        lambda path: set_conf(path, "spark.sql.streaming.stateStore.encodingFormat", "avro"),
        UnsupportedQueryError,
        "encodingFormat=avro, not unsaferow",
    ),
    "provider": (
        lambda path: set_conf(path, "spark.sql.streaming.stateStore.providerClass", "com.example.Mine"),
        UnsupportedProviderError,
        "kept by com.example.Mine",
    ),
    "no offsets": (
        lambda path: (path / "offsets" / str(LAST)).unlink(),
        MissingFileError,
        "this entry is not there, and the batch is committed",
    ),
    "offsets cut off": (
        lambda path: (path / "offsets" / str(LAST)).write_text("v1\n{"),
        CorruptFileError,
        f"offsets/{LAST}",
    ),
    "newest offsets empty": (
        lambda path: (path / "offsets" / str(LAST + 1)).write_text(""),
        CorruptFileError,
        rf"offsets/{LAST + 1}.*delete it, .* Batch {LAST + 1} is begun anew",
    ),
    "newest commits empty": (
        lambda path: (path / "commits" / str(LAST)).write_text(""),
        CorruptFileError,
        rf"commits/{LAST}.*delete it, .* Batch {LAST} runs again",
    ),
    "no partition": (lambda path: shutil.rmtree(path / "state/0/1"), MissingFileError, "state/0/1"),
}


def content(checkpoint: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in checkpoint.rglob("*") if path.is_file()}


@pytest.mark.parametrize("what", REFUSED)
def test_what_the_logs_tell_is_refused_before(tmp_path: Path, what: str) -> None:
    break_, kind, message = REFUSED[what]
    checkpoint = a_copy(tmp_path)
    break_(checkpoint)
    before = content(checkpoint)
    with pytest.raises(kind, match=message) as refused:
        check_migration(str(checkpoint), WANTED, CONF, ())
    assert refused.value.remedy
    with pytest.raises(kind, match=message):
        migrate(str(checkpoint), WANTED, CONF, ())
    assert content(checkpoint) == before


def test_what_can_be_migrated_is_left_as_it_is(tmp_path: Path) -> None:
    checkpoint = a_copy(tmp_path)
    before = content(checkpoint)
    check_migration(str(checkpoint), WANTED, CONF, ())
    assert content(checkpoint) == before
