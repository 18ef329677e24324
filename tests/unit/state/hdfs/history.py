"""A query's history on one partition, as a driver and its executors make it, and what must come of it.

The driver keeps the chosen (version, id) of each batch. Executors run attempts: some abort, fail, are speculative
twins, or end when the driver has moved on. The model holds the rows of every committed attempt.

What is promised, and compared:

    the chosen versions, back to min_versions_to_retain before the newest one     always there, and right
    any other attempt that was committed with an id                               right, or a typed error
    format 1, where a version has no id                                           as long as all attempts of a version
        write the same (Spark's own promise); other rows only after a restart of all executors, and only where no
        snapshot of the rows before was written (`History.may_write`)
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import struct
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from hdfsstore import StateStoreConf, StateStoreError
from hdfsstore.state.protocols import ReadStateStore, StateStore, StateStoreCheckpointInfo, StateStoreProvider
from tests.contract.backends import HDFS
from tests.services.places import Place
from tests.support.maps import as_dict, indexed_long
from tests.support.partition import EMPTY, Partition, Ref, State, contents, read

Trouble = Callable[[], contextlib.AbstractContextManager[None]]
Steps = Sequence[tuple[bytes, bytes | None]]  # puts, and removes where the value is None
TIMEOUT_OFFSET = 16
HOSTS = ("a", "a", "b")  # two executors share the images of one host

KEYS = st.integers(0, 11).map(lambda number: b"key %d" % number)
# Rows of two longs, the second of which is indexed.
VALUES = st.none() | st.integers(0, 999).map(lambda number: struct.pack("<qqq", 0, number, number % 20 - 1))
STEPS = st.lists(st.tuples(KEYS, VALUES), max_size=6)
EXECUTORS = st.integers(0, len(HOSTS) - 1)
PICKS = st.integers(0, 999)

PROFILE = settings(
    max_examples=int(os.environ.get("HDFSSTORE_HISTORIES", "20")),
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


@dataclasses.dataclass
class Attempt:
    """A writable store in flight."""

    executor: int
    base: Ref
    store: StateStore
    rows: State
    left: list[tuple[bytes, bytes | None]]

    def work(self, count: int) -> None:
        """Does the next `count` updates."""
        for key, value in self.left[:count]:
            if value is None:
                self.store.remove(key)
                self.rows.pop(key, None)
            else:
                self.store.put(key, value)
                self.rows[key] = value
            assert self.store.get(key) == value
        del self.left[:count]


def after(rows: State, steps: Steps) -> State:
    result = dict(rows)
    for key, value in steps:
        if value is None:
            result.pop(key, None)
        else:
            result[key] = value
    return result


def check_rows(store: ReadStateStore, rows: State) -> None:
    """All of them are there, and found once they have expired."""
    assert contents(store) == rows
    longs = {key: indexed_long(value) for key, value in rows.items()}
    indexed = {key: long for key, long in longs.items() if long is not None}
    for end in (10, 20):
        expired = {key: value for batch in store.expired(end, 3) for key, value in as_dict(*batch).items()}
        assert expired == {key: rows[key] for key, long in indexed.items() if long < end}
        assert store.next_expiry() == min(indexed.values(), default=None)


class History:
    """Driver, executors and model.

    Args:
        shared_across_workers: whether the executors are a stateful query's.
        place: where the store is; None: on a local disk.
        outages: what goes wrong with the place. A commit may succeed all the same, or fail when its file is there.
    """

    def __init__(
        self,
        conf: StateStoreConf,
        *,
        shared_across_workers: bool,
        place: Place | None = None,
        outages: Mapping[str, Trouble] | None = None,
    ) -> None:
        self.partition = Partition(Path(tempfile.mkdtemp(prefix="history-")), HDFS, conf, place)
        self.is_local = place is None
        self.troubles = outages or {"no folder": self.partition.no_folder, "full disk": self.partition.full_disk}
        self.format = conf.checkpoint_format_version
        self.shared_across_workers = shared_across_workers
        self.executors: list[StateStoreProvider] = [self._open(host) for host in HOSTS]
        self.attempts: list[Attempt] = []
        self.readers: list[tuple[ReadStateStore, State]] = []
        self.rows: dict[Ref, State] = {EMPTY: {}}
        self.bases: dict[Ref, Ref] = {}
        self.chosen: list[Ref] = [EMPTY]
        self.reported: list[Ref] = []  # attempts on top of the last chosen one
        self.newest = 0
        self.script: dict[int, Steps] = {}  # format 1: what each version's attempts do

    def _open(self, host: str) -> StateStoreProvider:
        index = {"timeout_offset": TIMEOUT_OFFSET}
        if self.shared_across_workers:
            return self.partition.open(host, shared_across_workers=True, **index, checkpoint_format_version=self.format)
        return self.partition.open(host, **index, checkpoint_format_version=self.format)

    @property
    def oldest(self) -> int:
        """The oldest version that is retained."""
        return max(0, self.newest - self.partition.conf.min_versions_to_retain)

    @property
    def promised(self) -> list[Ref]:
        return [*self.chosen[self.oldest :], *self.reported]

    # What executors do

    def begin(self, executor: int, steps: Steps, anew: bool = False) -> None:
        """Opens a store for these updates; in format 1 for those that the version had before, unless it is `anew`."""
        base = self.chosen[-1]
        if self.format == 1:
            steps = steps if anew else self.script.get(base[0] + 1, steps)
            if not self.may_write(base, steps):
                return
            self.script[base[0] + 1] = steps
        store = self.executors[executor].get_store(*base)
        check_rows(store, self.rows[base])
        self.attempts.append(Attempt(executor, base, store, dict(self.rows[base]), list(steps)))

    def commit(self, attempt: Attempt) -> None:
        self.attempts.remove(attempt)
        attempt.work(len(attempt.left))
        check_rows(attempt.store, attempt.rows)
        self._committed(attempt, attempt.store.commit())

    def _committed(self, attempt: Attempt, info: StateStoreCheckpointInfo) -> None:
        written = (info.version, info.checkpoint_unique_id)
        assert (info.version, info.base_checkpoint_unique_id) == (attempt.base[0] + 1, attempt.base[1])
        assert written[1] is None or written not in self.rows
        self.rows[written] = attempt.rows
        self.bases[written] = attempt.base
        self.newest = max(self.newest, info.version)
        if attempt.base == self.chosen[-1] and written not in self.reported:
            self.reported.append(written)

    def fail(self, attempt: Attempt, pick: int) -> None:
        """A commit whose upload fails."""
        self.attempts.remove(attempt)
        attempt.work(len(attempt.left))
        try:
            with self.trouble(pick):
                info = attempt.store.commit()
        except StateStoreError:
            return
        assert not self.is_local, "a commit in trouble has succeeded"
        self._committed(attempt, info)

    def trouble(self, pick: int) -> contextlib.AbstractContextManager[None]:
        return list(self.troubles.values())[pick % len(self.troubles)]()

    def restart(self, executor: int) -> None:
        for attempt in [each for each in self.attempts if each.executor == executor]:
            attempt.store.close()
            self.attempts.remove(attempt)
        self.executors[executor].close()
        self.executors[executor] = self._open(HOSTS[executor])

    def drop_images(self, host: str) -> None:
        shutil.rmtree(self.partition.root / host, ignore_errors=True)

    def lose_snapshot(self, pick: int) -> bool:
        """Deletes a snapshot that no promised version can do without; whether there was one."""
        folder = self.partition.folder
        snapshots = sorted(folder.glob("*.snapshot"))
        names = set(self.partition.names())
        for path in snapshots[pick % max(1, len(snapshots)) :]:
            if all(self.can_be_made(version, names - {path.name}) for version in self.promised):
                path.unlink()
                path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
                return True
        return False

    def can_be_made(self, version: Ref, names: set[str]) -> bool:
        """Whether the files of the version are among those of these names."""
        backend, folder = self.partition.backend, self.partition.folder
        while version != EMPTY and backend.whole_of(folder, *version).name not in names:
            base = self.bases[version]
            other_format = base != EMPTY and (base[1] is None) != (version[1] is None)
            if other_format or backend.changes_of(folder, *version).name not in names:
                return False
            version = base
        return True

    # What the driver does

    def choose(self, pick: int) -> None:
        self.chosen.append(self.reported[pick % len(self.reported)])
        self.reported = []

    def rewind(self, pick: int) -> None:
        """The driver goes back to a version that stays retained, whatever the attempts in flight still write."""
        newest = max([self.newest, *(attempt.base[0] + 1 for attempt in self.attempts)])
        back = pick % (len(self.chosen) - max(0, newest - self.partition.conf.min_versions_to_retain))
        if back:
            del self.chosen[-back:]
            self.reported = []

    def switch(self) -> None:
        """The query is restarted with the other checkpoint format."""
        self.format = 3 - self.format
        self.restart_all()

    def restart_all(self) -> None:
        for executor in range(len(HOSTS)):
            self.restart(executor)

    def may_write(self, base: Ref, steps: Steps) -> bool:
        """Format 1: whether other rows than before may be written as that version; restarts executors for it."""
        version, wanted = base[0] + 1, after(self.rows[base], steps)
        in_flight = [after(each.rows, each.left) for each in self.attempts if each.base[0] == base[0]]
        if all(rows == wanted for rows in (self.rows.get((version, None), wanted), *in_flight)):
            return True
        over = version if base == EMPTY or base[1] is None else version + 1  # a switch replaces the snapshot
        snapshots = [int(path.stem) for path in self.partition.folder.glob("*.snapshot") if path.stem.isdecimal()]
        if any(snapshot >= over for snapshot in snapshots):
            return False
        self.restart_all()
        self.reported = []
        for stale in [each for each in self.rows if each[0] >= version and each[1] is None]:
            del self.rows[stale]
        for number in [each for each in self.script if each > version]:
            del self.script[number]
        return True

    # What must hold

    def check(self, executor: int, pick: int) -> None:
        """Any version through an executor."""
        every = list(self.rows)
        version = every[pick % len(every)]
        promised = self.promised
        if pick % 2:
            version = promised[pick // 2 % len(promised)]
        if version in promised:
            with self.executors[executor].get_read_store(*version) as store:
                check_rows(store, self.rows[version])
        elif version[1] is not None:
            with contextlib.suppress(StateStoreError):
                assert read(self.executors[executor], version) == self.rows[version]

    def check_readers(self) -> None:
        for store, rows in self.readers:
            assert contents(store) == rows

    def finish(self) -> None:
        """Every promised version, on a host that has nothing and on the old ones; then the end."""
        try:
            self.check_readers()
            for provider in (self._open("nothing"), *self.executors):
                for version in self.promised:
                    assert read(provider, version) == self.rows[version]
            assert not self.is_local or not list(self.partition.folder.glob(".*.tmp"))
        finally:
            self.close()

    def close(self) -> None:
        for attempt in self.attempts:
            attempt.store.close()
        for store, _ in self.readers:
            store.close()
        self.partition.close()
        shutil.rmtree(self.partition.root)
