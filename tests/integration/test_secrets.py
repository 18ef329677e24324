"""A key is in no file, log or message of a store's life."""

from __future__ import annotations

import logging
import subprocess
import sys
import traceback
import uuid
from pathlib import Path

import pytest
from pyarrow.fs import FileSystem

import hdfsstore
from hdfsstore.fs.location import resolve
from hdfsstore.fs.reading import read_file
from tests.services import minio as service
from tests.services.minio import Minio


def test_a_key_is_shown_nowhere(minio: Minio, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    uri = minio.uri(f"checkpoints/{uuid.uuid4()}/state")
    secret = service.PASSWORD
    assert secret in uri
    store_id = hdfsstore.StateStoreId(FileSystem.from_uri(uri), 0, 3)
    conf = hdfsstore.StateStoreConf(
        local_dir=str(tmp_path / "host"), maintenance_interval=0, min_deltas_for_snapshot=2, min_versions_to_retain=1
    )
    said = [repr(store_id)]
    with hdfsstore.open_provider(store_id, conf=conf) as provider:
        unique_id = None
        for version in range(6):
            store = provider.get_store(version, unique_id)
            store.put(b"k", b"%d" % version)
            unique_id = store.commit().checkpoint_unique_id
            provider.get_read_store(version + 1, unique_id).close()
            provider.do_maintenance()
        assert provider.metrics["filesDeleted"] > 0
        said += [repr(provider), repr(provider.id), str(provider.metrics)]
        with pytest.raises(hdfsstore.StateStoreError) as caught:
            provider.get_store(9, str(uuid.uuid4()))
        said += traceback.format_exception(caught.value)
    wrong = FileSystem.from_uri(uri.replace(secret, f"{secret}-wrong"))
    with hdfsstore.open_provider(hdfsstore.StateStoreId(wrong, 0, 3), conf=conf) as provider:
        store = provider.get_store(0)
        store.put(b"k", b"v")
        with pytest.raises(hdfsstore.StateStoreError) as caught:
            store.commit()
        said += traceback.format_exception(caught.value)
    with pytest.raises(hdfsstore.StateStoreError) as caught:
        hdfsstore.Checkpoint(uri)
    said += traceback.format_exception(caught.value)
    done = subprocess.run(
        [sys.executable, "-m", "hdfsstore", "inspect", uri], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    said += [done.stdout, done.stderr]

    kept = [path for path in (tmp_path / "host").rglob("*") if path.is_file()]
    assert any(path.name == "store.json" for path in kept)
    assert not [path for path in kept if secret.encode() in path.read_bytes()]
    fs, root = resolve(store_id.checkpoint_root)
    written = [read_file(fs, info.path) for info in fs.list_folder(f"{root}/{store_id.relative_folder}")]
    assert len(written) > 1
    assert secret.encode() not in b"".join(written)
    assert secret not in "".join(said)
    assert secret not in caplog.text
