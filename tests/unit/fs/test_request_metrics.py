"""What is counted, for whom, and by many threads at once."""

import contextvars
import os
import threading

from hdfsstore.fs.request_metrics import RequestMetrics, counted_in


def test_requests_are_counted_by_kind() -> None:
    metrics = RequestMetrics()
    metrics.request("GET", 0.25)
    metrics.request("GET", 0.25, retry=True)
    metrics.request("PUT", 1.5)
    metrics.read(3_000_000_000)
    metrics.written(5)
    counts = metrics.snapshot()
    assert counts.requests == {"GET": 2, "PUT": 1}
    assert (counts.retries, counts.bytes_read, counts.bytes_written, counts.ms) == (1, 3_000_000_000, 5, 2000)


def test_a_snapshot_stays_as_it_was() -> None:
    metrics = RequestMetrics()
    before = metrics.snapshot()
    metrics.request("GET", 1)
    assert before.requests == {}


def test_a_request_counts_for_who_asks_too() -> None:
    of_manager, of_store = RequestMetrics(), RequestMetrics()
    with counted_in(of_store):
        of_manager.request("GET", 0.5)
        of_manager.read(7)
        with counted_in(of_manager):  # which is counted once
            of_manager.written(2)
    of_manager.request("LIST", 0.5)
    assert of_manager.snapshot().requests == {"GET": 1, "LIST": 1}
    assert of_manager.snapshot().bytes_written == 2
    counts = of_store.snapshot()
    assert (counts.requests, counts.bytes_read, counts.bytes_written) == ({"GET": 1}, 7, 0)


def test_a_thread_with_a_copy_of_the_context_counts_for_who_asks() -> None:
    of_manager, of_store = RequestMetrics(), RequestMetrics()
    with counted_in(of_store):
        context = contextvars.copy_context()
    for run in (context.run, lambda work: work()):
        thread = threading.Thread(target=run, args=[lambda: of_manager.request("GET", 1)])
        thread.start()
        thread.join()
    assert of_manager.snapshot().requests == {"GET": 2}
    assert of_store.snapshot().requests == {"GET": 1}


def test_no_count_of_many_threads_is_lost() -> None:
    metrics = RequestMetrics()

    def work() -> None:
        for _ in range(2_000):
            metrics.request("GET", 0.001)
            metrics.read(1)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counts = metrics.snapshot()
    assert counts.requests == {"GET": 16_000}
    assert counts.bytes_read == 16_000


def test_a_child_counts_though_a_thread_of_the_parent_was_counting_at_the_fork() -> None:
    metrics = RequestMetrics()
    ended = threading.Event()

    def work() -> None:
        while not ended.is_set():
            metrics.request("GET", 0)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for _ in range(20):
            child = os.fork()
            if child == 0:
                metrics.request("GET", 0)
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        ended.set()
        thread.join()
