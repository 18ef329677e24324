"""A commit of more than 2 GiB: more than spans of int32 tell."""

from __future__ import annotations

import pytest

from tests.support.partition import Partition, ref
from tests.unit.state.hdfs.executors import damage, with_image

VALUE = bytes(240 << 20)


@pytest.mark.thorough
@pytest.mark.thorough
def test_updates_from_before_and_after_an_image_was_damaged(
    executors: Partition, caplog: pytest.LogCaptureFixture
) -> None:
    base = with_image(executors, 3)[3]
    with executors.open() as provider:
        (known, value), *_ = provider.get_store(*base).iterator()
    provider = executors.open()
    store = provider.get_store(*base)
    for i in range(9):
        store.put(b"large %d" % i, VALUE)
    [image] = executors.images()
    damage(image, 8192 / image.stat().st_size)  # its records; the index has been read
    assert store.get(known) == value
    assert "does not match its checksum" in caplog.text
    store.put(b"small", b"value")
    version = ref(store.commit())
    assert store.metrics["numUpdatedStateRows"] == 10
    read = provider.get_read_store(*version)
    assert (read.get(b"small"), read.get(known), read.get(b"large 8")) == (b"value", value, VALUE)
