"""What goes wrong with a storage while queries run on it, at random times."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial

from tests.services.fault_proxy import Fault, FaultProxy, Kind
from tests.services.hdfs import Hdfs
from tests.services.hdfs_node import HdfsNode
from tests.services.toxiproxy import BREAKING, Proxy

# Lasts for as long as its `with`.
Outage = Callable[[], AbstractContextManager[None]]
# Seconds. Clients of Spark and ours try again for longer than an outage lasts.
_OUTAGE = (0.1, 1.5)
_BETWEEN = (1.0, 8.0)


@contextmanager
def _connections(proxy: Proxy, breaking: Callable[[Proxy], AbstractContextManager[None]]) -> Iterator[None]:
    with breaking(proxy):
        yield
    # Else who waits for an answer that was lost does so for the 200 seconds of s3a.
    with proxy.down():
        pass


@contextmanager
def _answers(proxy: FaultProxy, kind: Kind, times: int, keep: int = 100) -> Iterator[None]:
    proxy.plan(Fault(kind, times=times, keep=keep))
    try:
        yield
    finally:
        proxy.plan()


def of_minio(link: Proxy, answers: FaultProxy) -> dict[str, Outage]:
    """Those of the connections, and those of the answers that come over them."""
    found: dict[str, Outage] = {name: partial(_connections, link, breaking) for name, breaking in BREAKING.items()}
    return found | {
        "503 SlowDown": partial(_answers, answers, "answer", 1000),
        "answers after which connections are reset": partial(_answers, answers, "lose", 5),
        "answers cut in the middle": partial(_answers, answers, "cut", 5),
        "answers cut in their headers": partial(_answers, answers, "cut head", 5),
        "answers cut late in their headers": partial(_answers, answers, "cut head", 5, keep=300),
    }


@contextmanager
def _frozen(hdfs: Hdfs) -> Iterator[None]:
    process = hdfs.active.process
    process.freeze()
    try:
        yield
    finally:
        process.thaw()


@contextmanager
def _failed_over(hdfs: Hdfs) -> Iterator[None]:
    hdfs.fail_over()
    yield


@contextmanager
def _lost(node: HdfsNode) -> Iterator[None]:
    node.stop()
    try:
        yield
    finally:
        node.start()


def of_hdfs(hdfs: Hdfs) -> dict[str, Outage]:
    """Those of a pair of NameNodes and its DataNodes."""
    found: dict[str, Outage] = {
        f"DataNode {number} lost": partial(_lost, node) for number, node in enumerate(hdfs.datanodes)
    }
    return found | {
        "NameNode frozen": partial(_frozen, hdfs),
        "NameNode failed over": partial(_failed_over, hdfs),
    }


@contextmanager
def at_random(outages: dict[str, Outage], seed: int, done: Counter[str]) -> Iterator[None]:
    """For as long as the `with` lasts, one outage comes after the other, with times between them.

    Args:
        done: counts them.
    """
    chance = random.Random(f"{seed}-outages")
    ended = threading.Event()
    failed: list[BaseException] = []

    def work() -> None:
        try:
            while not ended.wait(chance.uniform(*_BETWEEN)):
                name = chance.choice(list(outages))
                with outages[name]():
                    ended.wait(chance.uniform(*_OUTAGE))
                done[f"outage: {name}"] += 1
        except BaseException as error:  # noqa: BLE001  # told when the block ends
            failed.append(error)

    thread = threading.Thread(target=work)
    if outages:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        if outages:
            thread.join()
    if failed:
        raise failed[0]
