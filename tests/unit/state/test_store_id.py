"""Where a store may be, and what is shown and kept of that place."""

from __future__ import annotations

import logging
import pickle
import uuid
from pathlib import Path

import pytest
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

from hdfsstore import StateStoreConf, StateStoreError, StateStoreId, open_provider
from hdfsstore.fs.location import Location
from hdfsstore.state.protocols import StateStoreProvider
from tests.support.fsspec_folder import Folder

KEY = "AKIAs3cr3t"


def opened(root: Location, local_dir: Path, **settings: object) -> StateStoreProvider:
    conf = StateStoreConf(local_dir=str(local_dir), maintenance_interval=0, **settings)  # type: ignore[arg-type]
    return open_provider(StateStoreId(root, 0, 3), conf=conf)


def commit(provider: StateStoreProvider, version: int, unique_id: str | None) -> str | None:
    store = provider.get_store(version, unique_id)
    store.put(b"k", b"%d" % version)
    return store.commit().checkpoint_unique_id


def image_folders(local_dir: Path) -> list[str]:
    return sorted(path.name for path in local_dir.iterdir() if path.is_dir())


@pytest.mark.parametrize("backend", ["hdfs", "rocksdb"])
def test_each_kind_of_location_is_the_same_store(tmp_path: Path, backend: str) -> None:
    root = tmp_path / "c p" / "state"
    below = SubTreeFileSystem(str(tmp_path), LocalFileSystem())
    locations: list[Location] = [
        str(root),
        root,
        root.as_uri(),
        (LocalFileSystem(), str(root)),
        (below, "c p/state"),
        (Folder(Path("/"), "file").filesystem, str(root)),
    ]
    unique_id: str | None = None
    conf = StateStoreConf(local_dir=str(tmp_path / "host"), maintenance_interval=0)
    for version, location in enumerate(locations):
        with open_provider(StateStoreId(location, 0, 3), backend, conf) as provider:
            unique_id = commit(provider, version, unique_id)
    if backend == "hdfs":
        assert len(image_folders(tmp_path / "host")) == 1


def test_ids_are_compared_hashed_shown_and_pickled(tmp_path: Path) -> None:
    pair = (LocalFileSystem(), str(tmp_path))
    assert StateStoreId(pair, 0, 3) == StateStoreId(pair, 0, 3) != StateStoreId(pair, 0, 4)
    assert len({StateStoreId(pair, 0, 3), StateStoreId(pair, 0, 3), StateStoreId(tmp_path, 0, 3)}) == 2
    assert pickle.loads(pickle.dumps(StateStoreId(pair, 0, 3))) == StateStoreId(pair, 0, 3)
    assert (
        repr(StateStoreId(f"s3://AKIA:{KEY}@b/state?x=y", 0, 3, "s"))
        == "StateStoreId('s3://***@b/state?***', 0, 3, 's')"
    )
    assert repr(StateStoreId(pair, 0, 3)) == f"StateStoreId('local:{tmp_path}', 0, 3, 'default')"


def test_another_endpoint_has_images_of_its_own_and_a_new_key_keeps_them(tmp_path: Path) -> None:
    def root(**options: str) -> Location:
        return Folder(tmp_path / "bucket", "sftp", storage_options=options).filesystem, "/cp/state"

    with opened(root(host="one", password=KEY), tmp_path / "host") as provider:
        unique_id = commit(provider, 0, None)
    with opened(root(host="one", password="another"), tmp_path / "host") as provider:
        commit(provider, 1, unique_id)
    assert len(image_folders(tmp_path / "host")) == 1
    with opened(root(host="two", password=KEY), tmp_path / "host") as provider:
        commit(provider, 1, unique_id)
    assert len(image_folders(tmp_path / "host")) == 2


def test_a_key_is_in_no_file_log_or_message(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    storage = Folder(tmp_path / "bucket", "sftp", storage_options={"host": "server", "password": KEY})
    root = storage.filesystem, "/cp/state"
    said = []
    with opened(root, tmp_path / "host", min_deltas_for_snapshot=2, min_versions_to_retain=1) as provider:
        unique_id: str | None = None
        for version in range(6):
            unique_id = commit(provider, version, unique_id)
            provider.get_read_store(version + 1, unique_id).close()
            provider.do_maintenance()
        assert provider.metrics["filesDeleted"] > 0
        said += [repr(provider.id), str(provider.metrics), repr(provider)]
        for path in storage.local("/cp/state/0/3").iterdir():
            path.write_bytes(b"damaged")
    with opened(root, tmp_path / "other") as provider:
        for wanted in ((6, unique_id), (7, str(uuid.uuid4()))):
            with pytest.raises(StateStoreError) as caught:
                provider.get_store(*wanted)
            said += [str(caught.value), repr(caught.value)]
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(path.name == "store.json" for path in files)
    assert any(path.suffix == ".image" for path in files)
    assert any("sftp://server/cp/state" in path.read_text("utf-8") for path in files if path.name == "store.json")
    assert not [path for path in files if KEY.encode() in path.read_bytes()]
    assert KEY not in caplog.text
    assert KEY not in "".join(said)
