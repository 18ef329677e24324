"""Random histories of attempts, failures, restarts, rewinds, switches and maintenance, against the model in history.py.

`HDFSSTORE_HISTORIES=5000 python -m pytest tests/unit/state/hdfs/test_state_machine.py` runs that many of each kind, and
`--places hdfs,minio` runs them there, while connections break.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from hdfsstore import StateStoreConf, StateStoreError
from tests.services.places import Place
from tests.services.toxiproxy import BREAKING
from tests.unit.state.hdfs.history import EXECUTORS, HOSTS, PICKS, PROFILE, STEPS, Attempt, History, Steps

TIMEOUT_S = 1.5

Storage = Callable[[], dict[str, Any]] | None


class Machine(RuleBasedStateMachine):
    """What both formats promise. A subclass says which of them a history begins with."""

    begins_with = 2
    history: History
    storage: Storage = None

    @initialize(
        deltas=st.integers(0, 4),
        retained=st.integers(1, 8),
        in_memory=st.integers(0, 3),
        share=st.sampled_from([0.0, 0.25, 10.0]),
        checksums=st.booleans(),
        shared_across_workers=st.booleans(),
    )
    def start(
        self, deltas: int, retained: int, in_memory: int, share: float, checksums: bool, shared_across_workers: bool
    ) -> None:
        self.history = History(
            StateStoreConf(
                min_deltas_for_snapshot=deltas,
                min_versions_to_retain=retained,
                max_versions_to_retain_in_memory=in_memory,
                image_overlay_share=share,
                row_checksum_enabled=checksums,
                checkpoint_format_version=self.begins_with,
                maintenance_interval=0,
            ),
            shared_across_workers=shared_across_workers,
            **(self.storage() if self.storage is not None else {}),
        )

    def teardown(self) -> None:
        if hasattr(self, "history"):
            self.history.finish()

    @precondition(lambda self: len(self.history.attempts) < 4)
    @rule(executor=EXECUTORS, steps=STEPS, anew=st.booleans())
    def begin(self, executor: int, steps: Steps, anew: bool) -> None:
        self.history.begin(executor, steps, anew)

    @rule(executor=EXECUTORS, batches=st.lists(STEPS, min_size=1, max_size=5), maintained=st.booleans())
    def run_batches(self, executor: int, batches: list[Steps], maintained: bool) -> None:
        """What happens nearly always: one attempt each, which is chosen."""
        for steps in batches:
            before = len(self.history.attempts)
            self.history.begin(executor, steps)
            if len(self.history.attempts) > before:
                self.history.commit(self.history.attempts[-1])
                self.history.choose(-1)
            if maintained:
                self.history.executors[executor].do_maintenance()

    @precondition(lambda self: self.history.attempts)
    @rule(pick=PICKS, count=st.integers(1, 3))
    def work(self, pick: int, count: int) -> None:
        self._attempt(pick).work(count)

    @precondition(lambda self: self.history.attempts)
    @rule(pick=PICKS)
    def commit(self, pick: int) -> None:
        self.history.commit(self._attempt(pick))

    @precondition(lambda self: self.history.attempts)
    @rule(pick=PICKS)
    def abort(self, pick: int) -> None:
        attempt = self._attempt(pick)
        attempt.store.abort()
        self.history.attempts.remove(attempt)

    @precondition(lambda self: self.history.attempts)
    @rule(pick=PICKS, trouble=PICKS)
    def fail(self, pick: int, trouble: int) -> None:
        self.history.fail(self._attempt(pick), trouble)

    def _attempt(self, pick: int) -> Attempt:
        return self.history.attempts[pick % len(self.history.attempts)]

    @precondition(lambda self: self.history.reported)
    @rule(pick=PICKS)
    def choose(self, pick: int) -> None:
        self.history.choose(pick)

    @rule(pick=PICKS)
    def rewind(self, pick: int) -> None:
        self.history.rewind(pick)

    @rule(executor=EXECUTORS)
    def maintain(self, executor: int) -> None:
        self.history.executors[executor].do_maintenance()

    @rule(executor=EXECUTORS, trouble=PICKS)
    def maintain_in_trouble(self, executor: int, trouble: int) -> None:
        with self.history.trouble(trouble), contextlib.suppress(StateStoreError):
            self.history.executors[executor].do_maintenance()

    @rule(executor=EXECUTORS)
    def restart(self, executor: int) -> None:
        self.history.restart(executor)

    @rule(host=st.sampled_from(sorted(set(HOSTS))))
    def drop_images(self, host: str) -> None:
        self.history.drop_images(host)

    @rule(pick=PICKS)
    def lose_snapshot(self, pick: int) -> None:
        self.history.lose_snapshot(pick)

    @rule(executor=EXECUTORS, pick=PICKS)
    def check(self, executor: int, pick: int) -> None:
        self.history.check(executor, pick)

    @precondition(lambda self: len(self.history.readers) < 3)
    @rule(executor=EXECUTORS, pick=PICKS)
    def read_for_long(self, executor: int, pick: int) -> None:
        version = self.history.promised[pick % len(self.history.promised)]
        store = self.history.executors[executor].get_read_store(*version)
        self.history.readers.append((store, self.history.rows[version]))

    @precondition(lambda self: self.history.readers)
    @rule()
    def check_readers(self) -> None:
        self.history.check_readers()
        self.history.readers.pop(0)[0].close()


class Format1(Machine):
    begins_with = 1


class Format2(Machine):
    begins_with = 2


class Switching(Machine):
    @rule()
    def switch(self) -> None:
        self.history.switch()


@pytest.fixture
def storage(place: Place, request: pytest.FixtureRequest) -> Storage:
    """Gives each history a folder of its own on a storage whose connections break; None: a local disk."""
    if place.uri.startswith("file:"):
        return None
    link, behind = request.getfixturevalue("link"), request.getfixturevalue("behind")
    outages = {name: partial(breaking, link) for name, breaking in BREAKING.items()}
    return staticmethod(lambda: {"place": behind(TIMEOUT_S), "outages": outages})


@pytest.mark.parametrize("machine", [Format1, Format2, Switching])
def test_histories(machine: type[Machine], storage: Storage, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "hdfsstore")  # failures that were asked for
    there = type(machine.__name__, (machine,), {"storage": storage})
    run_state_machine_as_test(there, settings=PROFILE)
