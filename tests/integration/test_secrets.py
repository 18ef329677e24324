"""A key is in no file, log or message of a store's life."""

from __future__ import annotations

import base64
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
from hdfsstore.fs.s3.client import keys_of
from hdfsstore.fs.s3.s3_files import S3FileManager
from tests.integration.s3_managers import ROLE_ARN, bare_client, policy, temporary_keys
from tests.services import minio as service
from tests.services.minio import Minio
from tests.support.partition import live, read, state_after, write_chain


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
        live(provider, 6)
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


@pytest.mark.parametrize("with_role", [False, True])
def test_a_token_a_key_of_the_customer_and_those_of_a_role_are_shown_nowhere(
    secure_minio: Minio, tmp_path: Path, caplog: pytest.LogCaptureFixture, with_role: bool
) -> None:
    caplog.set_level(logging.DEBUG)
    bucket = f"secrets-{uuid.uuid4()}"
    bare_client(secure_minio).create_bucket(Bucket=bucket)
    customer_key = base64.b64encode(bytes(range(32))).decode()
    options = {name: value for name, value in secure_minio.storage_options().items() if not name.endswith(".key")}
    options |= {
        "aws_ca_bundle": str(secure_minio.ca_file),
        "fs.s3a.encryption.algorithm": "SSE-C",
        "fs.s3a.encryption.key": customer_key,
    }
    if with_role:
        options |= {
            "fs.s3a.access.key": service.USER,
            "fs.s3a.secret.key": service.PASSWORD,
            "fs.s3a.aws.credentials.provider": "org.apache.hadoop.fs.s3a.auth.AssumedRoleCredentialProvider",
            "fs.s3a.assumed.role.arn": ROLE_ARN,
            "fs.s3a.assumed.role.sts.endpoint": secure_minio.endpoint(),
            "fs.s3a.assumed.role.external.id": "the-external-id",
        }
    else:
        options |= temporary_keys(secure_minio, policy("s3:*"))
    store_id = hdfsstore.StateStoreId(f"s3a://{bucket}/state", 0, 3, storage_options=options)
    conf = hdfsstore.StateStoreConf(local_dir=str(tmp_path), maintenance_interval=0, min_deltas_for_snapshot=2)
    caplog.clear()
    with hdfsstore.open_provider(store_id, conf=conf) as provider:
        end = write_chain(provider, 4)[-1]
        provider.do_maintenance()
        assert read(provider, end) == state_after(4)
        said = [repr(store_id), repr(provider), str(provider.metrics), caplog.text]
    fs, _ = resolve(f"s3a://{bucket}/state", options)  # the client that the store has used
    assert isinstance(fs, S3FileManager)
    of_client = keys_of(fs._bucket.client())
    assert len(of_client) == 3
    hidden = {customer_key, service.PASSWORD, "the-external-id", *of_client, *options.values()}
    hidden -= {value for name, value in options.items() if "key" not in name and "token" not in name}
    hidden -= {service.USER}  # which is the package's name, too
    assert "x-amz-security-token:***" in caplog.text  # botocore's own log is there
    text = "".join(said)
    assert [secret for secret in hidden if secret in text] == []
    kept = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert [secret for secret in hidden if any(secret.encode() in content for content in kept)] == []
