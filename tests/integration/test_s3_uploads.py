"""Large files go to S3 in parts, several at once."""

from __future__ import annotations

import threading
import time
import uuid

from hdfsstore.fs.s3.multipart import PART
from tests.integration.s3_managers import BUCKET, manager, read
from tests.services.fault_proxy import Fault, FaultProxy
from tests.services.minio import Minio

AT_ONCE = 4
PARTS = 2 * AT_ONCE


class _OnTheWay:
    """The parts that have reached the server, whose answers wait until there are four."""

    def __init__(self) -> None:
        self.most = 0
        self._now = 0
        self._lock = threading.Lock()
        self._enough = threading.Barrier(AT_ONCE)

    def part(self) -> None:
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
        self._enough.wait(10)
        time.sleep(0.3)  # a fifth one would come now
        with self._lock:
            self._now -= 1


def test_four_parts_are_on_the_way_at_once(minio: Minio, proxy: FaultProxy) -> None:
    on_the_way = _OnTheWay()
    proxy.plan(Fault("delay", "PUT", "partNumber", times=PARTS, before=on_the_way.part))
    path = f"{BUCKET}/{uuid.uuid4()}"
    files = manager(proxy.port, timeout_s=15)
    content = bytes(range(256)) * (PART // 256) * PARTS
    files.create(path, [content])
    assert on_the_way.most == AT_ONCE
    assert sorted(target.partition("partNumber=")[2][:1] for method, target in proxy.take() if method == "PUT") == [
        str(number) for number in range(1, PARTS + 1)
    ]
    assert read(manager(minio.port), path) == content
