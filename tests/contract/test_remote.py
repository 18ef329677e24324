"""Stores on a storage with latency: what is read side by side, which requests are made, and how they are counted."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pyarrow.fs import FileInfo

from hdfsstore.errors import FileSystemTimeoutError
from hdfsstore.state.protocols import StateStoreProvider
from tests.contract.backends import ROCKSDB, VARIANTS, WITH_IDS
from tests.support.partition import EMPTY, Partition, read, state_after, write, write_chain
from tests.support.remote_files import RemoteFiles

# The deltas of versions 2 to 5 of 6. Those of versions 1 and 6 tell what the chain is.
IN_BETWEEN = r"^[2-5](_.*)?\.(delta|changelog)$"

pytestmark = pytest.mark.local_disk


@pytest.fixture
def remote(partition: Partition) -> RemoteFiles:
    """The storage of the partition."""
    made = RemoteFiles()
    partition.store_id = replace(partition.store_id, checkpoint_root=(made, f"{partition.root}/state"))
    return made


def test_a_version_is_loaded_from_files_that_are_opened_side_by_side(partition: Partition, remote: RemoteFiles) -> None:
    last = write_chain(partition.open(), 6)[-1]
    with remote.opened_together(IN_BETWEEN, 4):
        assert read(partition.open("elsewhere"), last) == state_after(6)


def test_what_is_missing_since_a_cached_version_is_opened_side_by_side(
    partition: Partition, remote: RemoteFiles
) -> None:
    chain = write_chain(partition.open(), 6)
    cold = partition.open("elsewhere")
    read(cold, chain[1])
    with remote.opened_together(IN_BETWEEN, 4):
        assert read(cold, chain[6]) == state_after(6)


@pytest.mark.parametrize("variant", [v for v in VARIANTS if v.backend is ROCKSDB], ids=str)
def test_sst_files_are_opened_side_by_side(partition: Partition, remote: RemoteFiles) -> None:
    writer = partition.open(min_deltas_for_snapshot=0)
    last = EMPTY
    for _ in range(3):  # each snapshot has another SST file
        last = write_chain(writer, 1, last)[-1]
        writer.do_maintenance()
    with remote.opened_together(r"\.sst$", 3):
        assert read(partition.open("elsewhere"), last) == state_after(3)


@pytest.mark.parametrize("variant", WITH_IDS, ids=str)
def test_a_named_version_is_opened_without_listings_and_lookups(partition: Partition, remote: RemoteFiles) -> None:
    writer = partition.open(min_deltas_for_snapshot=0)
    chain = write_chain(writer, 3)
    writer.do_maintenance()
    chain += write_chain(writer, 2, chain[-1])[1:]
    before = remote.requests.snapshot().requests
    assert read(partition.open("elsewhere"), chain[-1]) == state_after(5)
    after = remote.requests.snapshot().requests
    assert {kind for kind in after if after[kind] != before.get(kind, 0)} == {"GET"}


def test_requests_are_counted_for_the_store_that_causes_them(partition: Partition, remote: RemoteFiles) -> None:
    provider = partition.open(min_deltas_for_snapshot=0)
    other = partition.open("elsewhere")
    assert requests(provider) == (0, 0, 0)
    store = provider.get_store(*EMPTY)
    store.put(b"a", b"1")
    one = store.commit()
    number, _, written = requests(provider)
    assert number > 0
    assert written > 0
    assert requests(other) == (0, 0, 0)
    # A task reports what its store says after the commit.
    assert store.metrics["fsRequests"] == number
    assert store.metrics["fsRequests.PUT"] == provider.metrics["fsRequests.PUT"] > 0
    read(other, (one.version, one.checkpoint_unique_id))
    assert requests(other)[1] > 0
    assert requests(provider) == (number, *requests(provider)[1:])
    provider.do_maintenance()
    assert provider.metrics["fsRequests"] > number
    assert provider.metrics["fsRequestMs"] >= 1
    assert provider.metrics["fsRetries"] == 0
    counts = remote.requests.snapshot()
    assert sum(counts.requests.values()) == provider.metrics["fsRequests"] + other.metrics["fsRequests"]


def requests(provider: StateStoreProvider) -> tuple[float, float, float]:
    metrics = provider.metrics
    return metrics["fsRequests"], metrics["fsBytesRead"], metrics["fsBytesWritten"]


@pytest.mark.parametrize("variant", [variant for variant in VARIANTS if not variant.conf.row_checksum_enabled], ids=str)
@pytest.mark.usefixtures("remote")
def test_a_failed_commit_counts_too(partition: Partition) -> None:
    provider = partition.open()
    one = write(provider, EMPTY, {b"a": b"1"})
    store = provider.get_store(*one)
    before = store.metrics["fsRequests"]
    store.put(b"b", b"1")
    with partition.no_folder(), pytest.raises(Exception):  # noqa: B017, PT011 - each backend has its own
        store.commit()
    assert store.metrics["fsRequests"] == provider.metrics["fsRequests"] > before


@pytest.mark.parametrize("cached", [0, 1])
@pytest.mark.parametrize("name", [r"^2(_.*)?\.(delta|changelog)$", r"^3(_.*)?\.(delta|changelog)$"])
def test_a_file_that_is_replaced_while_it_is_read_is_read_again(
    partition: Partition, remote: RemoteFiles, name: str, cached: int
) -> None:
    chain = write_chain(partition.open(), 3)
    cold = partition.open("elsewhere")
    read(cold, chain[cached])
    remote.replace_while_read(name)
    assert read(cold, chain[3]) == state_after(3)
    assert remote.is_replaced


@pytest.mark.parametrize("variant", [v for v in VARIANTS if v.conf.checkpoint_format_version == 1], ids=str)
def test_a_storage_that_does_not_answer_is_asked_once(
    partition: Partition, remote: RemoteFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = write_chain(partition.open(), 3)
    cold = partition.open("elsewhere")
    read(cold, chain[1])
    asked: list[str] = []

    def freeze(folder: str) -> list[FileInfo]:
        asked.append(folder)
        raise FileSystemTimeoutError("the storage has not answered `LIST`", folder)

    monkeypatch.setattr(remote, "list_folder", freeze)
    with pytest.raises(FileSystemTimeoutError):
        cold.get_store(*chain[3])
    assert len(asked) == 1
