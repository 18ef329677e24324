"""Format 1 where attempts of a version differ, which it cannot set right: a new executor follows the files, as Spark's.

Whatever executors with stale memories write over each other, a load is the newest snapshot at or before the version and
the deltas after it, each file being one attempt's and whole; or a typed error where one is missing.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from hdfsstore import StateStoreConf, StateStoreError
from hdfsstore.codecs.compression import decompress
from tests.contract.backends import HDFS
from tests.support.maps import decoded
from tests.support.partition import Partition, State, read, state_after, update, write_chain
from tests.unit.state.hdfs.conftest import MakePartition
from tests.unit.state.hdfs.history import EXECUTORS, HOSTS, PROFILE, STEPS, Steps


def replayed(partition: Partition, version: int) -> State | None:
    """The state by the files alone; None where one is missing."""
    rows: State = {}
    first = version
    while first and not partition.backend.whole_of(partition.folder, first, None).exists():
        first -= 1
    if first:
        rows = {key: value or b"" for key, value in _records(partition.backend.whole_of(partition.folder, first, None))}
    for delta in range(first + 1, version + 1):
        path = partition.backend.changes_of(partition.folder, delta, None)
        if not path.exists():
            return None
        for key, value in _records(path):
            rows.pop(key, None)
            if value is not None:
                rows[key] = value
    return rows


def _records(path: Path) -> Steps:
    return decoded(decompress("lz4", path.read_bytes()))


def test_a_late_twin_leaves_the_versions_after_it_whole(make_partition: MakePartition) -> None:
    """What it writes anew is the version whose snapshot all others stand on: the deltas before it are gone."""
    partition = make_partition(checkpoint_format_version=1, min_deltas_for_snapshot=4, min_versions_to_retain=2)
    executor = partition.open("one")
    chain = write_chain(executor, 4)
    twin = partition.open("two").get_store(*chain[4])
    for key, value in ((b"key 5", b"5"), (b"last", b"5")):
        twin.put(key, value)
    for _ in range(4):
        chain += write_chain(executor, 1, chain[-1])[1:]
        executor.do_maintenance()
    assert not (partition.folder / "4.delta").exists()
    twin.commit()
    assert [read(partition.open("three"), version) for version in chain[5:]] == [state_after(v) for v in range(5, 9)]


class Differing(RuleBasedStateMachine):
    """Attempts of one version that do not write the same, by executors that know nothing of each other."""

    @initialize(deltas=st.integers(0, 4), retained=st.integers(2, 8), in_memory=st.integers(0, 3))
    def start(self, deltas: int, retained: int, in_memory: int) -> None:
        conf = StateStoreConf(
            checkpoint_format_version=1,
            min_deltas_for_snapshot=deltas,
            min_versions_to_retain=retained,
            max_versions_to_retain_in_memory=in_memory,
            maintenance_interval=0,
        )
        self.partition = Partition(Path(tempfile.mkdtemp(prefix="history-")), HDFS, conf)
        self.executors = [self.partition.open(f"{host} {number}") for number, host in enumerate(HOSTS)]
        self.newest = 0

    @rule(executor=EXECUTORS, back=st.integers(0, 3), steps=STEPS)
    def run(self, executor: int, back: int, steps: Steps) -> None:
        try:
            store = self.executors[executor].get_store(max(0, self.newest - back))
        except StateStoreError:
            return  # another's retention went by its own idea of what is newest
        update(store, dict(steps))
        self.newest = max(self.newest, store.commit().version)

    @rule(executor=EXECUTORS)
    def maintain(self, executor: int) -> None:
        self.executors[executor].do_maintenance()

    @rule(back=st.integers(0, 4))
    def load(self, back: int) -> None:
        version = max(0, self.newest - back)
        expected = replayed(self.partition, version)
        provider = self.partition.open("nothing")
        try:
            if expected is None:
                with pytest.raises(StateStoreError):
                    provider.get_read_store(version)
            else:
                assert read(provider, (version, None)) == expected
        finally:
            provider.close()
            shutil.rmtree(self.partition.root / "nothing", ignore_errors=True)

    def teardown(self) -> None:
        if hasattr(self, "partition"):
            self.partition.close()
            shutil.rmtree(self.partition.root)


def test_attempts_that_differ(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "hdfsstore")  # versions that were written anew are told of
    run_state_machine_as_test(Differing, settings=PROFILE)
