"""The clean-up of random histories: real files, deleted by the real clean-up, loaded by the real loader.

A history has several attempts of each version, built on any attempt before; the driver names attempt 0 of each. What a
lineage begins at, and which attempts have a snapshot and since when, is anybody's guess, as executors come and go. The
checkpoint format may change at one version.
"""

from __future__ import annotations

import tempfile
import uuid
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hdfsstore.codecs.lineage import LineageItem
from hdfsstore.codecs.records import RecordFormat
from hdfsstore.fs.local_files import LocalFileManager
from hdfsstore.state.hdfs.layer_reader import StoreReader
from hdfsstore.state.hdfs.partition_reader import HdfsPartitionReader
from hdfsstore.state.maintenance.retention import Retention
from hdfsstore.state.metrics import MaintenanceMetrics
from hdfsstore.state.versions.files import VersionId, file_name
from tests.support.chains import pairs, write

LOCAL = LocalFileManager()
FORMAT = RecordFormat()
STRAY = str(uuid.UUID(int=1))


@dataclass(eq=False)
class Attempt:
    id: VersionId
    parent: Attempt | None
    full: bool  # a full snapshot and no delta: the first version of its format
    begins_at: int  # the version that its lineage begins at
    snapshot_at: int | None  # the number of the clean-up before which its snapshot appears

    def path(self) -> list[Attempt]:
        """It and what it is built on, oldest first."""
        return [*(self.parent.path() if self.parent else []), self]

    def state(self) -> dict[bytes, bytes]:
        return {b"%d" % a.id[0]: (a.id[1] or "none").encode() for a in self.path()}

    def lineage(self) -> list[LineageItem]:
        items = [LineageItem(*a.id) for a in self.path()[:-1] if a.id[1] and a.id[0] >= self.begins_at]
        return [] if self.full else items


@dataclass
class History:
    keep: int
    switch: int | None  # the first version of the other format
    versions: list[list[Attempt]] = field(default_factory=list)  # from version 1 on
    temporaries: set[str] = field(default_factory=set)

    def attempts(self) -> list[Attempt]:
        return [attempt for attempts in self.versions for attempt in attempts]

    def chosen(self, version: int) -> Attempt:
        return self.versions[version - 1][0]


@st.composite
def histories(draw: st.DrawFn) -> History:
    count = draw(st.integers(2, 12))
    switch = draw(st.none() | st.integers(2, count))
    with_ids = draw(st.booleans())
    history = History(draw(st.integers(1, 4)), switch)
    first = 1  # of the format
    for version in range(1, count + 1):
        full = version == switch
        if full:
            first, with_ids = version, not with_ids
        attempts = []
        for number in range(draw(st.integers(1, 3)) if with_ids else 1):
            before = history.versions[-1] if history.versions else [None]
            attempts.append(
                Attempt(
                    (version, str(uuid.UUID(int=100 * version + number)) if with_ids else None),
                    before[draw(st.integers(0, len(before) - 1)) if number else 0],
                    full,
                    draw(st.integers(first, max(first, version - 1))),
                    0 if full else draw(st.none() | st.integers(0, 4)),
                )
            )
        history.versions.append(attempts)
        if draw(st.booleans()):
            history.temporaries.add(f".{file_name(attempts[-1].id, 'delta')}.{STRAY}.tmp")
    return history


def make(folder: Path, history: History) -> None:
    for attempt in history.attempts():
        if not attempt.full:
            changes = {b"%d" % attempt.id[0]: (attempt.id[1] or "none").encode()}
            write(folder, attempt.id, "delta", changes, attempt.lineage() if attempt.id[1] else None)
    for name in history.temporaries:
        (folder / name).write_bytes(b"half")
    (folder / "notes.txt").write_bytes(b"a stranger's")


def retention(folder: Path, history: History) -> Retention:
    reader = StoreReader(LOCAL, str(folder), FORMAT)
    return Retention(LOCAL, str(folder), history.keep, reader.lineage, reader.check_snapshot, MaintenanceMetrics())


def needed(folder: Path, history: History, driver_version: int) -> set[str]:
    """What has to be left of the files in the folder, said once more and in one go."""
    there = {path.name for path in folder.iterdir()}
    oldest = driver_version - history.keep
    if oldest <= 0:
        return there
    if (
        history.switch is not None
        and oldest < history.switch <= driver_version
        and history.chosen(driver_version).id[1] is None
    ):
        return there  # which attempt of the oldest version won is told by no file
    chain = {version: history.chosen(version).id for version in range(1, oldest + 1)}
    base = max((v for v, id_ in chain.items() if file_name(id_, "snapshot") in there), default=0)
    left = {"notes.txt"}
    for name in there - left:
        text = name.removeprefix(".").split(".")[0]
        version, _, unique_id = text.partition("_")
        on_chain = base <= int(version) <= oldest and chain[int(version)] == (int(version), unique_id or None)
        if int(version) > oldest or (on_chain and not name.startswith(".")):
            left.add(name)
    return left


def load(folder: Path, attempt: Attempt) -> dict[bytes, bytes | None]:
    version, unique_id = attempt.id
    loader = HdfsPartitionReader(LOCAL, str(folder), FORMAT, {version: unique_id} if unique_id else {})
    return dict(pair for chunk in loader.load(version, pairs) for pair in chunk)


@pytest.mark.thorough
@settings(max_examples=200)
@given(histories(), st.data())
def test_what_is_retained_loads_and_the_rest_is_gone(history: History, data: st.DataObject) -> None:
    count = len(history.versions)
    runs = sorted(data.draw(st.sets(st.integers(1, count), min_size=1, max_size=5)))
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root)
        make(folder, history)
        cleaner = retention(folder, history)
        for number, driver_version in enumerate(runs):
            for attempt in history.attempts():
                if attempt.snapshot_at == number and (
                    attempt.full or (folder / file_name(attempt.id, "delta")).exists()
                ):
                    write(folder, attempt.id, "snapshot", attempt.state())
            if data.draw(st.booleans()):
                cleaner = retention(folder, history)  # another executor, which knows nothing yet
            expected = needed(folder, history, driver_version)
            chosen = history.chosen(driver_version)
            lineage = chosen.lineage() if data.draw(st.booleans()) else []
            cleaner.run(chosen.id, [tuple(item) for item in lineage])
            assert {path.name for path in folder.iterdir()} == expected
            for version in range(max(1, driver_version - history.keep), count + 1):
                for attempt in history.versions[version - 1]:
                    if attempt.path()[:driver_version][-1] is chosen or attempt is history.chosen(version):
                        assert load(folder, attempt) == attempt.state()
