"""Calls that are tried again, that time out, that hang, and what may be written after them."""

import logging
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from hdfsstore.errors import FileSystemTimeoutError, StateStoreError
from hdfsstore.fs import calls as module
from hdfsstore.fs import threads
from hdfsstore.fs.calls import Calls, Progress
from hdfsstore.fs.request_metrics import RequestMetrics, counted_in
from tests.support.waiting import wait_until

# Long enough that nothing of a test that passes ends by it.
NEVER = 600.0


class BusyError(Exception):
    """Passes by itself."""


class DeniedError(Exception):
    """Does not."""


class Server:
    """Fails, hangs or answers as the test says."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.calls = 0
        self.entered = threading.Event()
        self.thaw = threading.Event()

    def answer(self) -> str:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return "answer"

    def hang(self) -> str:
        self.entered.set()
        assert self.thaw.wait(60)
        return self.answer()


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FIRST_PAUSE_S", 0.001)


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.thaw.set()


@pytest.fixture
def identity(request: pytest.FixtureRequest) -> str:
    return f"test://{request.node.name}"


@pytest.fixture
def requests() -> RequestMetrics:
    return RequestMetrics()


@pytest.fixture
def make(identity: str, requests: RequestMetrics) -> Callable[..., Calls]:
    def calls(timeout_s: float = NEVER, attempt_s: float = 0.0) -> Calls:
        def retryable(error: Exception) -> bool:
            return isinstance(error, BusyError)

        return Calls(timeout_s, requests, retryable, identity=identity, attempt_s=attempt_s)

    return calls


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(module, "time", made)
    return made


@pytest.mark.parametrize("on_thread", [False, True])
def test_what_may_pass_is_tried_again(make: Callable[..., Calls], requests: RequestMetrics, on_thread: bool) -> None:
    server = Server(BusyError(), BusyError())
    assert make().call("GET", "/f", server.answer, repeatable=True, on_thread=on_thread) == "answer"
    assert server.calls == 3
    counts = requests.snapshot()
    assert (counts.requests, counts.retries) == ({"GET": 3}, 2)


def test_a_body_is_read_by_the_thread_that_asks_and_tried_again_with_its_request(make: Callable[..., Calls]) -> None:
    server = Server()
    readers: list[int] = []

    def read(answer: str) -> None:
        assert answer == "answer"
        readers.append(threading.get_ident())
        if len(readers) < 3:
            raise BusyError

    assert make().call("GET", "/f", server.answer, repeatable=True, on_thread=True, then=read) == "answer"
    assert server.calls == 3
    assert readers == [threading.get_ident()] * 3


@pytest.mark.parametrize("on_thread", [False, True])
@pytest.mark.parametrize(
    ("error", "repeatable"),
    [(DeniedError("no"), True), (FileNotFoundError("/f"), True), (BusyError("later"), False)],
)
def test_other_errors_arrive_at_once(
    make: Callable[..., Calls], requests: RequestMetrics, error: Exception, repeatable: bool, on_thread: bool
) -> None:
    server = Server(error)
    with pytest.raises(type(error)) as raised:
        make().call("PUT", "/f", server.answer, repeatable=repeatable, on_thread=on_thread)
    assert raised.value is error
    assert server.calls == 1
    assert requests.snapshot().requests == {"PUT": 1}


@pytest.mark.parametrize("on_thread", [False, True])
@pytest.mark.usefixtures("clock")
def test_failures_until_the_deadline_are_a_timeout(make: Callable[..., Calls], on_thread: bool) -> None:
    def fail() -> None:
        raise BusyError("503 from http://user:key@127.0.0.1:9000/bucket")

    with pytest.raises(FileSystemTimeoutError) as raised:
        make(0.05).call("GET", "/f", fail, repeatable=True, on_thread=on_thread)
    error = raised.value
    assert error.tries > 1
    assert error.path == "/f"
    assert f"`GET` has failed {error.tries} times" in str(error)
    assert "BusyError: 503 from http://127.0.0.1:9000/bucket" in str(error)
    assert "hdfsstore.fs.timeout" in str(error)
    assert "key" not in f"{error!r}{error.__cause__!r}"
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.tries) == (str(error), error.tries)


@pytest.mark.usefixtures("clock")
def test_the_last_error_is_the_cause(make: Callable[..., Calls]) -> None:
    def fail() -> None:
        raise BusyError("503")

    with pytest.raises(FileSystemTimeoutError) as raised:
        make(0.01).call("GET", "/f", fail, repeatable=True)
    assert isinstance(raised.value.__cause__, BusyError)


def test_no_try_begins_that_could_end_after_the_deadline(make: Callable[..., Calls]) -> None:
    server = Server(BusyError())
    with pytest.raises(FileSystemTimeoutError, match="has failed once"):
        make(100, attempt_s=100).call("GET", "/f", server.answer, repeatable=True)
    assert server.calls == 1


def test_pauses_grow_up_to_a_limit_and_differ(monkeypatch: pytest.MonkeyPatch, make: Callable[..., Calls]) -> None:
    monkeypatch.undo()
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    server = Server(*[BusyError()] * 40)
    make().call("GET", "/f", server.answer, repeatable=True)
    assert len(pauses) == 40
    for n, pause in enumerate(pauses):
        assert min(0.1 * 2**n, 5) / 2 <= pause <= min(0.1 * 2**n, 5)
    assert len(set(pauses[10:])) > 20


@pytest.mark.parametrize("timeout_s", [0, -1, float("nan")])
def test_a_timeout_is_a_positive_number(make: Callable[..., Calls], timeout_s: float) -> None:
    with pytest.raises(ValueError, match="positive"):
        make(timeout_s)


def test_a_call_that_hangs_is_given_up(
    make: Callable[..., Calls], server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        caplog.at_level(logging.WARNING, "hdfsstore.fs.calls"),
        pytest.raises(
            FileSystemTimeoutError, match=r"/f: the storage has not answered `mkdir` within 0.05 s"
        ) as raised,
    ):
        make(0.05).call("mkdir", "/f", server.hang, repeatable=True, on_thread=True)
    assert raised.value.tries == 1
    assert "hangs" in caplog.text


def test_a_call_that_hangs_names_what_failed_before_it_and_the_proxy(
    identity: str, requests: RequestMetrics, server: Server
) -> None:
    def fail_and_hang() -> str:
        if not server.calls:
            server.calls += 1
            raise BusyError("refused by http://user:key@proxy:3128")
        return server.hang()

    calls = Calls(0.5, requests, lambda _: True, identity=identity)
    calls.proxy = "proxy:3128"
    with pytest.raises(FileSystemTimeoutError, match=r"the last of 2 tries, .*BusyError: refused by") as raised:
        calls.call("GET", "/f", fail_and_hang, repeatable=True, on_thread=True)
    assert f"{identity} answers by the proxy proxy:3128." in str(raised.value)
    assert "key" not in str(raised.value)


def test_nothing_is_written_under_a_name_before_an_abandoned_write_has_ended(
    make: Callable[..., Calls], server: Server
) -> None:
    calls = make(0.05)
    with pytest.raises(FileSystemTimeoutError), calls.writing("/f"):
        calls.call("rename", "/f.tmp", server.hang, repeatable=False, on_thread=True)
    for of_same_place in (calls, make()):  # made with new credentials, for instance
        with (
            pytest.raises(FileSystemTimeoutError, match="may still take effect") as raised,
            of_same_place.writing("/f"),
        ):
            raise AssertionError("the write began")
        assert raised.value.tries == 0
    with calls.writing("/g"):
        assert make().call("rename", "/g.tmp", Server().answer, repeatable=False, on_thread=True) == "answer"
    server.thaw.set()
    wait_until(lambda: not module._hanging.number(calls._identity))
    with calls.writing("/f"):
        assert make().call("rename", "/f.tmp", server.answer, repeatable=False, on_thread=True) == "answer"


def test_reads_and_unique_names_hold_nothing_up(make: Callable[..., Calls], server: Server) -> None:
    calls = make(0.01)
    with pytest.raises(FileSystemTimeoutError):
        calls.call("create", "/f", server.hang, repeatable=False, on_thread=True)
    with calls.writing("/f"):
        assert calls.call("create", "/f", Server().answer, repeatable=False) == "answer"


def test_the_number_of_hanging_calls_is_bounded(
    make: Callable[..., Calls], server: Server, requests: RequestMetrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MOST_HANGING", 3)
    for _ in range(3):
        with pytest.raises(FileSystemTimeoutError):
            make(0.01).call("stat", "/f", server.hang, repeatable=True, on_thread=True)
    with pytest.raises(FileSystemTimeoutError, match="3 earlier calls of test://") as raised:
        make().call("stat", "/f", server.answer, repeatable=True, on_thread=True)
    assert raised.value.tries == 0
    assert requests.snapshot().requests == {"stat": 3}
    # Another place is not held up.
    other = Calls(NEVER, requests, lambda _: False, identity="test://other")
    assert other.call("stat", "/f", Server().answer, repeatable=True, on_thread=True) == "answer"


def test_threads_are_used_again(make: Callable[..., Calls]) -> None:
    calls = make()
    before = threading.active_count()
    for _ in range(200):
        calls.call("stat", "/f", Server().answer, repeatable=True, on_thread=True)
    assert threading.active_count() <= before + 1


def test_idle_threads_are_few() -> None:
    barrier = threading.Barrier(3 * threads._MOST_IDLE)
    jobs = [threads.Job(lambda: barrier.wait(60)) for _ in range(barrier.parties)]
    for job in jobs:
        job.start()
    assert all(job.wait(60) for job in jobs)
    assert len(threads._idle) <= threads._MOST_IDLE


def test_progress_puts_the_deadline_off(make: Callable[..., Calls], clock: Clock) -> None:
    progress = Progress()
    tries = iter(range(1, 100))

    def upload() -> str:
        position = next(tries)
        clock.now += 90
        progress.at(position)
        if position < 20:
            raise BusyError
        return "done"

    assert make(100).call("write", "/f", upload, repeatable=True, progress=progress) == "done"


def test_who_waits_for_a_thread_sees_its_progress(clock: Clock) -> None:
    progress = Progress()

    class Waits:
        def wait(self, seconds: float) -> bool:
            assert 0 < seconds <= 1
            clock.now += seconds
            if clock.now in {90, 180, 270}:
                progress.at(int(clock.now))
            return False

    assert not module._Deadline(100, progress).wait(Waits())  # type: ignore[arg-type]
    assert clock.now == 370


def test_a_body_without_progress_times_out_and_stops(make: Callable[..., Calls]) -> None:
    progress, thaw, stopped = Progress(), threading.Event(), threading.Event()

    def upload() -> None:
        progress.at(1)
        assert thaw.wait(60)
        try:
            progress.at(2)
        except FileSystemTimeoutError:
            stopped.set()
            raise

    with pytest.raises(FileSystemTimeoutError, match="not answered"):
        make(0.05).call("write", "/f", upload, repeatable=False, on_thread=True, progress=progress)
    thaw.set()
    assert stopped.wait(60)


@pytest.mark.usefixtures("clock")
def test_bodies_that_are_cut_at_the_same_place_again_and_again_end(make: Callable[..., Calls]) -> None:
    progress = Progress()

    def download() -> None:
        progress.at(1000)
        raise BusyError("reset")

    with pytest.raises(FileSystemTimeoutError, match="BusyError: reset"):
        make(0.05).call("GET", "/f", download, repeatable=True, progress=progress)


def test_a_crash_of_the_client_is_an_error(make: Callable[..., Calls]) -> None:
    class PanicError(BaseException):
        """As PyO3's PanicException."""

    def panic() -> None:
        raise PanicError("index out of bounds")

    with pytest.raises(StateStoreError, match="PanicError: index out of bounds"):
        make().call("read", "/f", panic, repeatable=True, on_thread=True)
    assert make().call("read", "/f", Server().answer, repeatable=True, on_thread=True) == "answer"


def test_no_thread_is_an_error(make: Callable[..., Calls], monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threads, "_Thread", none)
    monkeypatch.setattr(threads, "_idle", [])
    with pytest.raises(StateStoreError, match="ulimit -u"):
        make().call("read", "/f", Server().answer, repeatable=True, on_thread=True)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_ends_the_wait(make: Callable[..., Calls], server: Server) -> None:
    calls = make()
    main = threading.get_ident()

    def interrupt() -> None:
        assert server.entered.wait(60)
        signal.pthread_kill(main, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt), calls.writing("/f"):
        calls.call("rename", "/f", server.hang, repeatable=False, on_thread=True)
    thread.join()
    with pytest.raises(FileSystemTimeoutError, match="may still take effect"), calls.writing("/f"):
        raise AssertionError("the write began")


def test_what_a_thread_counts_is_for_who_asks(make: Callable[..., Calls], requests: RequestMetrics) -> None:
    of_store = RequestMetrics()
    with counted_in(of_store):
        make().call("read", "/f", lambda: requests.read(9), repeatable=True, on_thread=True)
    assert (of_store.snapshot().requests, of_store.snapshot().bytes_read) == ({"read": 1}, 9)


def test_many_threads_call_at_once(make: Callable[..., Calls], requests: RequestMetrics) -> None:
    calls = make()
    wrong: list[str] = []

    def work(n: int) -> None:
        for i in range(100):
            answer = calls.call("stat", "/f", partial("{}-{}".format, n, i), repeatable=True, on_thread=True)
            if answer != f"{n}-{i}":
                wrong.append(answer)

    workers = [threading.Thread(target=work, args=[n]) for n in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong
    assert requests.snapshot().requests == {"stat": 800}


def test_a_forked_child_calls_on_threads_of_its_own(make: Callable[..., Calls], server: Server) -> None:
    calls = make(0.01)
    calls.call("stat", "/f", server.answer, repeatable=True, on_thread=True)
    with pytest.raises(FileSystemTimeoutError), calls.writing("/f"):
        calls.call("rename", "/f", server.hang, repeatable=False, on_thread=True)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            in_child = make()
            answered = in_child.call("stat", "/f", Server().answer, repeatable=True, on_thread=True) == "answer"
            try:
                with in_child.writing("/f"):  # the parent's write may still land
                    refused = False
            except FileSystemTimeoutError:
                refused = True
            status = 0 if answered and refused and not module._hanging.number(calls._identity) else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_hanging_call_does_not_hold_up_the_end_of_the_process() -> None:
    code = """
import threading
from hdfsstore.errors import FileSystemTimeoutError
from hdfsstore.fs.calls import Calls
from hdfsstore.fs.request_metrics import RequestMetrics
calls = Calls(0.05, RequestMetrics(), lambda _: False, identity="test:")
try:
    calls.call("stat", "/f", threading.Event().wait, repeatable=True, on_thread=True)
except FileSystemTimeoutError:
    print("gave up")
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.stdout, ended.returncode) == ("gave up\n", 0), ended.stderr
