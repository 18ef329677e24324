"""What a provider on RocksDB leaves in the checkpoint and on the local disk."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hdfsstore import StateStoreError, UnsupportedProviderError
from hdfsstore.codecs.compression import decompress
from hdfsstore.codecs.lineage import LineageItem, encode_header
from hdfsstore.state.protocols import StateStoreProvider
from hdfsstore.state.rocksdb.archive import decode
from tests.contract.backends import ROCKSDB
from tests.support.partition import Partition

Ref = tuple[int, str | None]


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Partition]:
    host = Partition(tmp_path, ROCKSDB)
    yield host
    host.close()


def ssts_of(host: Partition, name: str) -> set[str]:
    return {sst.remote for sst in decode((host.folder / name).read_bytes(), name).ssts}


def write(provider: StateStoreProvider, base: Ref, **updates: bytes | None) -> Ref:
    store = provider.get_store(*base)
    for key, value in updates.items():
        if value is None:
            store.remove(key.encode())
        else:
            store.put(key.encode(), value)
    info = store.commit()
    return info.version, info.checkpoint_unique_id


def read(provider: StateStoreProvider, version: Ref) -> dict[str, bytes]:
    with provider.get_read_store(*version) as store:
        return {key.decode(): value for key, value in store.iterator()}


def test_a_changelog_is_sparks(host: Partition) -> None:
    one = write(host.open(checkpoint_format_version=1), (0, None), a=b"1")
    write(host.open(checkpoint_format_version=1), one, a=None, b=b"22")
    put, gone = b"\0\0\0\2\0b\0\0\0\3\00022", b"\0\0\0\2\0a\xff\xff\xff\xff"
    records = decompress("lz4", (host.folder / "2.changelog").read_bytes())
    assert records in (put + gone + b"\xff\xff\xff\xff", gone + put + b"\xff\xff\xff\xff")


def test_a_changelog_with_an_id_begins_with_its_lineage(host: Partition) -> None:
    provider = host.open()
    one = write(provider, (0, None), a=b"1")
    two = write(provider, one)
    header = encode_header([LineageItem(1, str(one[1]))])
    assert decompress("lz4", (host.folder / f"2_{two[1]}.changelog").read_bytes()) == header + b"\xff\xff\xff\xff"


def test_an_sst_file_is_uploaded_once(host: Partition) -> None:
    provider = host.open(min_deltas_for_snapshot=0)
    version = write(provider, (0, None), **{f"key {i}": os.urandom(2_000) for i in range(50)})
    provider.do_maintenance()
    first = ssts_of(host, host.names("1_*.zip")[0])
    version = write(provider, version, more=b"1")
    provider.do_maintenance()
    second = ssts_of(host, host.names("2_*.zip")[0])
    assert first < second
    assert set(host.names("SSTs/*.sst")) == second
    expected = read(provider, version)
    assert len(expected) == 51
    for path in host.folder.glob("*.changelog"):
        path.unlink()
    provider.close()
    assert read(host.open(), version) == expected


@pytest.mark.parametrize("damage", ["missing", "cut", "flipped"])
def test_a_zip_whose_sst_file_is_damaged_is_passed_over(host: Partition, damage: str) -> None:
    provider = host.open(min_deltas_for_snapshot=0)
    version = write(provider, (0, None), a=b"1")
    provider.do_maintenance()
    version = write(provider, version, b=b"2")
    provider.close()
    (path,) = (host.folder / "SSTs").glob("*.sst")
    content = path.read_bytes()
    if damage == "missing":
        path.unlink()
    else:  # its footer, without which RocksDB does not open it
        path.write_bytes(content[:-1] if damage == "cut" else content[:-60] + bytes(60))
    assert read(host.open(), version) == {"a": b"1", "b": b"2"}


@pytest.mark.parametrize("formats", [(1, 2), (2, 1), (1, 2, 1)], ids=str)
def test_a_switch_of_the_format_writes_a_zip_and_no_changelog(host: Partition, formats: tuple[int, ...]) -> None:
    version: Ref = (0, None)
    rows: dict[str, bytes] = {}
    for format_version in formats:
        provider = host.open(checkpoint_format_version=format_version)
        for _ in range(3):
            rows[f"key {version[0]}"] = rows["last"] = b"%d" % version[0]
            version = write(provider, version, **{f"key {version[0]}": b"%d" % version[0], "last": rows["last"]})
        assert provider.metrics["forceSnapshotCount"] == (format_version != formats[0] or len(host.names("7*")) > 0)
        provider.close()
        assert read(host.open(checkpoint_format_version=format_version), version) == rows
    for number in range(1, version[0] + 1):
        switched = number > 1 and number % 3 == 1
        files = [name for name in host.names("*") if name.split(".")[0].split("_")[0] == str(number)]
        assert [Path(name).suffix for name in files] == [".zip" if switched else ".changelog"]


def test_a_switch_on_top_of_what_another_attempt_has_gone_on_from(host: Partition) -> None:
    one = write(host.open(checkpoint_format_version=1), (0, None), a=b"1")
    provider = host.open(checkpoint_format_version=2)
    attempts = [provider.get_store(*one) for _ in range(2)]
    refs = []
    for number, store in enumerate(attempts):
        store.put(b"of", b"%d" % number)
        info = store.commit()
        refs.append((info.version, info.checkpoint_unique_id))
    for executor in (provider, host.open(checkpoint_format_version=2)):
        assert [read(executor, ref) for ref in refs] == [{"a": b"1", "of": b"0"}, {"a": b"1", "of": b"1"}]


def test_retention_takes_the_sst_files_that_no_zip_names(host: Partition) -> None:
    conf = {"min_deltas_for_snapshot": 1, "min_versions_to_retain": 3}
    provider = host.open(**conf)
    (host.folder / "SSTs").mkdir(parents=True)
    kept = ["notes.txt", "x-1.sst"]
    for name in kept:
        (host.folder / "SSTs" / name).write_bytes(b"")
        os.utime(host.folder / "SSTs" / name, (1, 1))
    orphan = "000009-11111111-1111-1111-1111-111111111111.sst"
    for name in (orphan, f".{orphan}.crc", f".{orphan}.22222222-2222-2222-2222-222222222222.tmp"):
        (host.folder / "SSTs" / name).write_bytes(b"")
        os.utime(host.folder / "SSTs" / name, (1, 1))
    version: Ref = (0, None)
    for number in range(30):
        version = write(provider, version, **{f"key {number % 4}": os.urandom(500)})
        provider.do_maintenance()
    named = set().union(*(ssts_of(host, name) for name in host.names("*.zip")))
    assert 0 < len(host.names("*.zip")) < 8
    assert set(host.names("SSTs/*")) - set(kept) - {orphan} == named - {orphan}
    assert set(kept) <= set(host.names("SSTs/*"))
    assert orphan not in host.names("SSTs/*")
    assert len(read(host.open(), version)) == 4


def test_the_local_folder_is_private_and_goes_with_the_provider(host: Partition) -> None:
    provider = host.open()
    version = write(provider, (0, None), a=b"1")
    assert [
        path.stat().st_mode & 0o777 for path in ((host.root / "host"), *(host.root / "host").glob("rocksdb-*/"))
    ] == [0o700] * 2
    reader = provider.get_read_store(*version)
    provider.close()
    assert reader.get(b"a") == b"1"
    reader.close()
    assert list((host.root / "host").iterdir()) == []


KILLED = """
import os, signal, sys
from hdfsstore import StateStoreConf, StateStoreId, open_provider
conf = StateStoreConf(local_dir=sys.argv[2], maintenance_interval=0)
store = open_provider(StateStoreId(sys.argv[1], 0, 0), "rocksdb", conf).get_store(0)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_process_left_is_deleted(host: Partition) -> None:
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(host.root / "state"), str(host.root / "host")], check=False
    )
    assert killed.returncode == -signal.SIGKILL
    left = set((host.root / "host").iterdir())
    assert len(left) == 2
    provider = host.open()
    write(provider, (0, None), a=b"1")
    assert not left & set((host.root / "host").iterdir())


def test_others_must_have_no_rights_in_the_local_folder(host: Partition) -> None:
    (host.root / "host").mkdir(mode=0o755)
    (host.root / "host").chmod(0o755)
    with pytest.raises(StateStoreError, match="local_dir"):
        host.open().get_store(0)


def test_without_rocksdict_the_extra_is_named(host: Partition, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rocksdict", None)
    with pytest.raises(StateStoreError, match=r"hdfsstore\[rocksdb\]"):
        host.open()


def test_row_checksums_are_refused(host: Partition) -> None:
    with pytest.raises(UnsupportedProviderError, match="row_checksum_enabled"):
        host.open(row_checksum_enabled=True)
