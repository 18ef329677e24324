"""The background thread: real threads and forks; events say what happened, and no assertion depends on how fast."""

import gc
import logging
import os
import subprocess
import sys
import threading
import weakref

import pytest

from hdfsstore.state.maintenance.scheduler import Maintenance
from hdfsstore.state.store_id import StateStoreId

SOON = 0.01
LONG = 60.0  # a bound for what should happen at once; reached only where it fails


class Provider:
    """Counts its runs; `work` is what a run does."""

    def __init__(self, work=lambda: None):
        self.id = StateStoreId("/checkpoint/state", 0, 0)
        self.runs = threading.Semaphore(0)
        self.threads = set()
        self.work = work

    def do_maintenance(self):
        self.threads.add(threading.current_thread())
        try:
            self.work()
        finally:
            self.runs.release()


@pytest.fixture
def maintenance():
    made = Maintenance()
    yield made
    made.end()


def wait(semaphore, times=1):
    for _ in range(times):
        assert semaphore.acquire(timeout=LONG)


def test_a_provider_is_maintained_again_and_again(maintenance):
    provider = Provider()
    maintenance.ensure(provider, SOON)
    wait(provider.runs, 3)


def test_one_daemon_thread_serves_all_providers(maintenance):
    providers = [Provider() for _ in range(5)]
    for provider in providers:
        maintenance.ensure(provider, SOON)
    for provider in providers:
        wait(provider.runs, 2)
    threads = set().union(*(provider.threads for provider in providers))
    assert len(threads) == 1
    assert threads.pop().daemon


def test_no_thread_before_the_first_need(maintenance):
    assert maintenance._thread is None
    maintenance.ensure(Provider(), 0)
    assert maintenance._thread is None, "an interval of 0 is never"


def test_ensuring_again_changes_nothing(maintenance):
    provider = Provider()
    maintenance.ensure(provider, LONG)
    thread = maintenance._thread
    maintenance.ensure(provider, LONG)
    assert maintenance._thread is thread
    assert len(maintenance._entries) == 1


def test_each_provider_has_its_own_interval(maintenance):
    rare, often = Provider(), Provider()
    maintenance.ensure(rare, LONG)
    maintenance.ensure(often, SOON)
    wait(often.runs, 5)
    assert not rare.runs.acquire(blocking=False)


def test_providers_are_held_weakly(maintenance):
    provider = Provider()
    maintenance.ensure(provider, SOON)
    wait(provider.runs)
    gone = weakref.ref(provider)
    ended = maintenance._thread
    del provider
    ended.join(LONG)  # the thread ends with its last provider
    gc.collect()
    assert not ended.is_alive()
    assert gone() is None
    another = Provider()
    maintenance.ensure(another, SOON)
    wait(another.runs)
    assert another.threads != {ended}


def test_an_exception_is_logged_and_ends_nothing(maintenance, caplog):
    def fail():
        raise RuntimeError("the disk is on strike")

    failing, fine = Provider(fail), Provider()
    with caplog.at_level(logging.ERROR):
        maintenance.ensure(failing, SOON)
        maintenance.ensure(fine, SOON)
        wait(failing.runs, 3)
        wait(fine.runs, 3)
    record = next(record for record in caplog.records if record.exc_info)
    assert "the disk is on strike" in str(record.exc_info[1])
    assert any(record.exc_info for record in caplog.records)


def test_forgetting_waits_for_the_run_under_way(maintenance):
    begun, go_on = threading.Event(), threading.Event()

    def work():
        begun.set()
        assert go_on.wait(LONG)

    provider = Provider(work)
    maintenance.ensure(provider, SOON)
    assert begun.wait(LONG)
    assert not maintenance.forget(provider, 0.05), "bounded"
    maintenance.ensure(provider, SOON)  # back, while its first run is still under way
    assert not maintenance.forget(provider, 0)
    go_on.set()
    wait(provider.runs)


def test_forgetting_returns_when_the_run_has_ended(maintenance):
    begun, go_on = threading.Event(), threading.Event()
    ended = []

    def work():
        begun.set()
        assert go_on.wait(LONG)
        ended.append(True)

    provider = Provider(work)
    maintenance.ensure(provider, SOON)
    assert begun.wait(LONG)
    threading.Timer(0.05, go_on.set).start()
    assert maintenance.forget(provider, LONG)
    assert ended == [True]
    wait(provider.runs)
    another = Provider()
    maintenance.ensure(another, SOON)
    wait(another.runs, 5)
    assert not provider.runs.acquire(blocking=False), "no second run"


def test_a_run_may_forget_its_own_provider(maintenance):
    returned = threading.Event()

    def work():
        assert not maintenance.forget(provider, LONG), "the run is under way, and does not wait for itself"
        returned.set()

    provider = Provider(work)
    maintenance.ensure(provider, SOON)
    assert returned.wait(LONG)


def test_forgetting_a_stranger(maintenance):
    assert maintenance.forget(Provider())


def test_a_forked_child_starts_its_own_thread():
    """In a process of its own: a fork of the tests' would take their threads' locks along."""
    script = """
import os, threading
from hdfsstore.state.maintenance.scheduler import maintenance
from hdfsstore.state.store_id import StateStoreId

class Provider:
    id = StateStoreId("/checkpoint/state", 0, 0)
    def __init__(self):
        self.ran = threading.Semaphore(0)
        self.pids = set()
    def do_maintenance(self):
        self.pids.add(os.getpid())
        self.ran.release()

inherited, used = Provider(), Provider()
maintenance.ensure(inherited, 0.01)
maintenance.ensure(used, 0.01)
assert inherited.ran.acquire(timeout=60) and used.ran.acquire(timeout=60)
for _ in range(20):  # forks at any moment of the thread's work
    child = os.fork()
    if child == 0:
        used.ran = threading.Semaphore(0)
        inherited.pids.clear()
        assert maintenance._thread is None
        maintenance.ensure(used, 0.001)
        ok = used.ran.acquire(timeout=60) and used.ran.acquire(timeout=60)
        os._exit(0 if ok and os.getpid() in used.pids and not inherited.pids else 1)
    assert os.waitpid(child, 0)[1] == 0
print("done")
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=LONG * 2, check=False)
    assert ran.stdout.strip() == "done", ran.stderr


def test_the_process_ends_while_a_run_is_under_way():
    script = """
import threading
from hdfsstore.state.maintenance.scheduler import maintenance
from hdfsstore.state.store_id import StateStoreId

begun = threading.Event()

class Provider:
    id = StateStoreId("/checkpoint/state", 0, 0)
    def do_maintenance(self):
        begun.set()
        while not maintenance.ending:
            pass
        print("ended by itself", flush=True)

provider = Provider()
maintenance.ensure(provider, 0.01)
assert begun.wait(60)
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=LONG, check=False)
    assert (ran.returncode, ran.stdout.strip(), ran.stderr) == (0, "ended by itself", "")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="priorities of threads are Linux'")
def test_the_thread_has_a_low_priority_and_nobody_else(maintenance):
    seen = []
    provider = Provider(
        lambda: seen.append((os.getpriority(os.PRIO_PROCESS, threading.get_native_id()), os.sched_getscheduler(0)))
    )
    before = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    maintenance.ensure(provider, SOON)
    wait(provider.runs)
    assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == before
    assert seen[0] == (min(before + 10, 19), os.SCHED_BATCH)
