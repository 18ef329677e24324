"""State at URIs whose schemes only fsspec knows: fsspec's memory stands for them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest

import hdfsstore
from hdfsstore.errors import NotPromisedError, StateStoreError, UnsupportedSettingError
from hdfsstore.fs.fsspec_uris import fsspec_place
from hdfsstore.fs.location import resolve
from hdfsstore.spark.querylog.fence import check_fence
from tests.support.partition import Ref, read, state_after, write_chain


@pytest.fixture
def uri() -> Iterator[str]:
    folder = str(uuid.uuid4())
    yield f"memory://{folder}"
    fsspec.filesystem("memory").rm(f"/{folder}", recursive=True)


def test_a_store_is_written_and_read(uri: str, tmp_path: Path) -> None:
    ends: list[Ref] = []
    for host in ("one", "two"):
        conf = hdfsstore.StateStoreConf(
            local_dir=str(tmp_path / host), maintenance_interval=0, min_deltas_for_snapshot=2
        )
        with hdfsstore.open_provider(hdfsstore.StateStoreId(uri, 0, 3), conf=conf) as provider:
            if ends:
                assert read(provider, ends[-1]) == state_after(4)
            ends += write_chain(provider, 4, *ends[-1:])
            provider.do_maintenance()
            assert read(provider, ends[-1]) == state_after(ends[-1][0])
    assert [name for name in fsspec.filesystem("memory").find(uri) if name.endswith(".snapshot")]


def test_nothing_is_promised_so_the_log_of_a_driver_is_refused(uri: str) -> None:
    fs, path = resolve(uri)
    assert path == uri.replace("memory:/", "")
    assert not fs.promises.create_if_absent
    assert not fs.promises.tested
    with pytest.raises(NotPromisedError, match="two drivers"):
        check_fence(uri, single_driver=False)
    fs.replace(f"{path}/x", [b"for the fixture"])


def test_places_on_one_filesystem_share_it() -> None:
    one, path = resolve("memory://a/b")
    other, other_path = resolve("memory://c/")
    assert one is other
    assert (path, other_path) == ("/a/b", "/c")


@pytest.mark.parametrize(
    "uri", ["sftp://me:s3cr3t@host/cp", "webhdfs://host:1/cp?delegation=s3cr3t", "simplecache::memory://cp"]
)
def test_passwords_and_chains_are_refused_and_not_shown(uri: str) -> None:
    with pytest.raises(UnsupportedSettingError, match="a pair") as caught:
        resolve(uri)
    assert "s3cr3t" not in str(caught.value)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(protocol: str) -> None:
        raise ImportError(f"{protocol} requires paramiko")

    monkeypatch.setattr(fsspec, "get_filesystem_class", missing)
    with pytest.raises(StateStoreError, match="another package for sftp: sftp requires paramiko"):
        resolve("sftp://host/cp")


def test_a_filesystem_that_cannot_be_reached_is_an_error_without_its_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **options: object) -> None:
        raise ConnectionRefusedError(f"no answer: {sorted(options)}")

    place = fsspec_place("memory://a/b", "memory")
    assert place is not None
    monkeypatch.setattr(fsspec, "filesystem", refuse)
    with pytest.raises(StateStoreError, match=r"no answer: \['skip_instance_cache'\]"):
        place.connect()


def test_lists_are_not_cached() -> None:
    place = fsspec_place("memory://a/b", "memory")
    assert place is not None
    assert not place.connect().handler.fs.dircache.use_listings_cache  # type: ignore[attr-defined]
    assert fsspec_place("nosuch://a/b", "nosuch") is None
