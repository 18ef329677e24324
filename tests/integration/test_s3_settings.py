"""Each setting of S3 that is honoured, on a real server. Objects are looked at with a bare client, and on its disk."""

from __future__ import annotations

import base64
import json
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

import hdfsstore
from hdfsstore.errors import FileSystemTimeoutError, StateStoreError, UnsupportedSettingError
from hdfsstore.fs.file_manager import FileManager
from hdfsstore.fs.location import resolve
from hdfsstore.fs.reading import read_file
from tests.integration.s3_managers import ROLE_ARN, bare_client, policy, temporary_keys
from tests.services.fault_proxy import FaultProxy
from tests.services.minio import KMS_KEY, PASSWORD, USER, Minio
from tests.services.places import BUCKET
from tests.support.partition import read, state_after, write_chain

MARK = b"what nobody may read on the disk;"
SMALL, LARGE = MARK * 100, MARK * 200_000  # one PUT, and parts
CUSTOMER_KEYS = [base64.b64encode(bytes([number]) * 32).decode() for number in (1, 2)]
PROVIDER = "fs.s3a.aws.credentials.provider"
ROLE = {
    PROVIDER: "org.apache.hadoop.fs.s3a.auth.AssumedRoleCredentialProvider",
    "fs.s3a.assumed.role.arn": ROLE_ARN,
    "fs.s3a.assumed.role.sts.endpoint.region": "us-east-1",
    "fs.s3a.assumed.role.session.duration": "900s",
}
READ_ONLY = ("s3:GetObject", "s3:ListBucket")
WITHOUT_LISTS = ("s3:GetObject", "s3:PutObject")


def without_keys(minio: Minio, port: int | None = None) -> dict[str, str]:
    return {name: value for name, value in minio.storage_options(port).items() if not name.endswith(".key")}


@pytest.fixture(scope="module")
def secure(secure_minio: Minio) -> Minio:
    bare_client(secure_minio).create_bucket(Bucket=BUCKET)
    return secure_minio


@pytest.fixture
def options(secure: Minio) -> dict[str, str]:
    return {**secure.storage_options(), "aws_ca_bundle": str(secure.ca_file), "timeout": "20"}


@pytest.fixture
def folder() -> str:
    return str(uuid.uuid4())


def read_object(files: FileManager, path: str) -> bytes:
    """Without a look for checksum files, which takes the right to list."""
    file = files.open_file(path)
    content = bytearray(len(LARGE) + 1)
    return bytes(content[: file.readinto(content)])


def on_disk(minio: Minio, key: str) -> bytes:
    """All that the server keeps of an object."""
    return b"".join(path.read_bytes() for path in (minio.data / BUCKET / key).rglob("*") if path.is_file())


def test_a_store_behind_tls_with_a_ca_of_ones_own(options: dict[str, str], folder: str, tmp_path: Path) -> None:
    store_id = hdfsstore.StateStoreId(f"s3a://{BUCKET}/{folder}", 0, 3, storage_options=options)
    conf = hdfsstore.StateStoreConf(local_dir=str(tmp_path), maintenance_interval=0, min_deltas_for_snapshot=2)
    with hdfsstore.open_provider(store_id, conf=conf) as provider:
        end = write_chain(provider, 4)[-1]
        provider.do_maintenance()
    with hdfsstore.open_provider(store_id, conf=conf) as provider:
        assert read(provider, end) == state_after(4)


def test_the_ca_of_the_environment(options: dict[str, str], folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_CA_BUNDLE", options.pop("aws_ca_bundle"))
    fs, path = resolve(f"s3://{BUCKET}/{folder}", {**options, "timeout": "21"})
    fs.write_unique(f"{path}/a", [SMALL])
    assert read_file(fs, f"{path}/a") == SMALL


def test_a_certificate_that_nobody_vouches_for_is_refused_at_once(options: dict[str, str], folder: str) -> None:
    del options["aws_ca_bundle"]
    fs, path = resolve(f"s3://{BUCKET}/{folder}", options)
    began = time.monotonic()
    with pytest.raises(StateStoreError, match=r"CERTIFICATE_VERIFY_FAILED.*aws_ca_bundle"):
        fs.write_unique(f"{path}/a", [SMALL])
    assert time.monotonic() - began < 60


def test_whether_there_is_tls_is_a_setting(secure: Minio, options: dict[str, str], folder: str) -> None:
    options["fs.s3a.endpoint"] = f"127.0.0.1:{secure.port}"
    fs, path = resolve(f"s3://{BUCKET}/{folder}", {**options, "fs.s3a.connection.ssl.enabled": "true"})
    fs.write_unique(f"{path}/a", [SMALL])
    assert read_file(fs, f"{path}/a") == SMALL
    fs, path = resolve(f"s3://{BUCKET}/{folder}", {**options, "fs.s3a.connection.ssl.enabled": "false"})
    with pytest.raises(StateStoreError):
        fs.write_unique(f"{path}/b", [SMALL])


@pytest.mark.parametrize("content", [SMALL, LARGE], ids=["one PUT", "parts"])
@pytest.mark.parametrize(
    ("algorithm", "more", "shown"),
    [
        (None, {}, {}),
        ("AES256", {}, {"ServerSideEncryption": "AES256"}),
        (
            "SSE-KMS",
            {"fs.s3a.encryption.key": KMS_KEY},
            {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": f"arn:aws:kms:{KMS_KEY}"},
        ),
        (
            "SSE-KMS",
            {"fs.s3a.encryption.key": KMS_KEY, "fs.s3a.encryption.context": "team=state, stage=test"},
            {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": f"arn:aws:kms:{KMS_KEY}"},
        ),
    ],
)
def test_encrypted_by_the_server_means_encrypted(
    secure: Minio,
    options: dict[str, str],
    folder: str,
    content: bytes,
    algorithm: str | None,
    more: dict[str, str],
    shown: dict[str, str],
) -> None:
    chosen = {**options, **more, **({"fs.s3a.encryption.algorithm": algorithm} if algorithm else {})}
    fs, path = resolve(f"s3://{BUCKET}/{folder}", chosen)
    for name, write in (("a", fs.create), ("b", fs.replace), ("c", fs.write_unique)):
        write(f"{path}/{name}", [content])
        assert read_file(fs, f"{path}/{name}") == content
        said = bare_client(secure).head_object(Bucket=BUCKET, Key=f"{folder}/{name}")
        assert {each: said[each] for each in ("ServerSideEncryption", "SSEKMSKeyId") if each in said} == shown
        assert (MARK in on_disk(secure, f"{folder}/{name}")) == (algorithm is None)


@pytest.mark.parametrize("content", [SMALL, LARGE], ids=["one PUT", "parts"])
def test_with_a_key_of_the_customer_nobody_else_reads(
    secure: Minio, options: dict[str, str], folder: str, content: bytes
) -> None:
    options["fs.s3a.encryption.algorithm"] = "SSE-C"
    mine, other = (
        resolve(f"s3://{BUCKET}/{folder}", {**options, "fs.s3a.encryption.key": key})[0] for key in CUSTOMER_KEYS
    )
    path = f"{BUCKET}/{folder}/a"
    mine.create(path, [content])
    with pytest.raises(FileExistsError):
        mine.create(path, [content])
    assert read_file(mine, path) == content
    [info] = mine.file_infos([path])
    assert info.size == len(content)
    with pytest.raises(StateStoreError) as caught:
        read_file(other, path)
    assert CUSTOMER_KEYS[1] not in str(caught.value)
    for read_bare in (bare_client(secure).head_object, bare_client(secure).get_object):
        with pytest.raises(ClientError):
            read_bare(Bucket=BUCKET, Key=f"{folder}/a")
    assert MARK not in on_disk(secure, f"{folder}/a")
    mine.delete([path])
    assert mine.list_folder(f"{BUCKET}/{folder}") == []


@pytest.mark.parametrize(("algorithm", "key"), [("SSE-KMS", "a-key-that-the-server-has-not"), ("DSSE-KMS", KMS_KEY)])
def test_what_the_server_cannot_encrypt_is_not_written(
    options: dict[str, str], folder: str, algorithm: str, key: str
) -> None:
    more = {"fs.s3a.encryption.algorithm": algorithm, "fs.s3a.encryption.key": key}
    fs, path = resolve(f"s3://{BUCKET}/{folder}", {**options, **more})
    for write, content in ((fs.create, SMALL), (fs.replace, LARGE)):
        with pytest.raises(StateStoreError):
            write(f"{path}/a", [content])
    assert fs.list_folder(path) == []


def test_a_key_of_the_customer_is_not_sent_without_tls(minio: Minio, folder: str) -> None:
    more = {"fs.s3a.encryption.algorithm": "SSE-C", "fs.s3a.encryption.key": CUSTOMER_KEYS[0]}
    with pytest.raises(UnsupportedSettingError, match=r"fs\.s3a\.encryption\.algorithm is SSE-C.*no TLS"):
        resolve(f"s3://{BUCKET}/{folder}", {**minio.storage_options(), **more})


@pytest.fixture
def sts(minio: Minio) -> Iterator[FaultProxy]:
    """Counts what STS is asked for."""
    with FaultProxy(minio.port) as proxy:
        yield proxy


def test_an_assumed_role_is_assumed_anew_before_it_ends(minio: Minio, sts: FaultProxy, folder: str) -> None:
    role = {**ROLE, "fs.s3a.assumed.role.sts.endpoint": f"http://127.0.0.1:{sts.port}"}
    fs, path = resolve(f"s3://{BUCKET}/{folder}", {**minio.storage_options(), **role})
    fs.write_unique(f"{path}/a", [LARGE])
    # botocore asks for new keys in the last 15 minutes, and these last no longer.
    assert read_file(fs, f"{path}/a") == LARGE
    assert len(sts.take()) > 1


def test_a_role_that_may_only_read(minio: Minio, folder: str) -> None:
    role = {
        **ROLE,
        "fs.s3a.assumed.role.sts.endpoint": minio.endpoint(),
        "fs.s3a.assumed.role.policy": policy(*READ_ONLY),
        "fs.s3a.assumed.role.session.name": "reader",
    }
    owner, path = resolve(f"s3://{BUCKET}/{folder}", minio.storage_options())
    owner.write_unique(f"{path}/a", [SMALL])
    fs, _ = resolve(f"s3://{BUCKET}/{folder}", {**minio.storage_options(), **role})
    assert read_file(fs, f"{path}/a") == SMALL
    assert [info.base_name for info in fs.list_folder(path)] == ["a"]
    for write in (fs.create, fs.replace):
        with pytest.raises(StateStoreError, match=r"AccessDenied.*s3:PutObject"):
            write(f"{path}/b", [SMALL])
    with pytest.raises(StateStoreError, match="AccessDenied"):
        fs.delete([f"{path}/a"])
    assert read_file(owner, f"{path}/a") == SMALL


def test_a_role_whose_keys_are_wrong(minio: Minio, folder: str) -> None:
    wrong = {**minio.storage_options(), "fs.s3a.secret.key": "wrong-secret-of-the-test"}
    role = {**ROLE, "fs.s3a.assumed.role.sts.endpoint": minio.endpoint()}
    fs, path = resolve(f"s3://{BUCKET}/{folder}", {**wrong, **role, "timeout": "10"})
    with pytest.raises(StateStoreError) as caught:
        fs.write_unique(f"{path}/a", [SMALL])
    assert "wrong-secret" not in str(caught.value)
    assert not isinstance(caught.value, FileSystemTimeoutError)


def test_keys_with_a_session_token(minio: Minio, folder: str) -> None:
    keys = temporary_keys(minio, policy("s3:*"))
    fs, path = resolve(f"s3://{BUCKET}/{folder}", {**without_keys(minio), **keys})
    fs.create(f"{path}/a", [LARGE])
    assert read_file(fs, f"{path}/a") == LARGE
    without_token = {name: value for name, value in keys.items() if "token" not in name}
    fs, _ = resolve(f"s3://{BUCKET}/{folder}", {**without_keys(minio), **without_token, "timeout": "10"})
    with pytest.raises(StateStoreError, match=r"403|InvalidTokenId|InvalidAccessKeyId"):
        read_file(fs, f"{path}/a")


def test_keys_that_may_not_list(minio: Minio, folder: str) -> None:
    fs, path = resolve(
        f"s3://{BUCKET}/{folder}", {**without_keys(minio), **temporary_keys(minio, policy(*WITHOUT_LISTS))}
    )
    fs.create(f"{path}/a", [SMALL])
    assert read_object(fs, f"{path}/a") == SMALL
    with pytest.raises(FileExistsError):
        fs.create(f"{path}/a", [SMALL])
    with pytest.raises(StateStoreError, match=r"AccessDenied.*s3:ListBucket"):
        fs.list_folder(path)


def test_a_profile_of_a_file(minio: Minio, folder: str, tmp_path: Path) -> None:
    profile = tmp_path / "credentials"
    profile.write_text(
        f"[default]\naws_access_key_id = x\naws_secret_access_key = y\n"
        f"[tests]\naws_access_key_id = {USER}\naws_secret_access_key = {PASSWORD}\n"
    )
    named = {
        PROVIDER: "org.apache.hadoop.fs.s3a.auth.ProfileAWSCredentialsProvider",
        "fs.s3a.auth.profile.file": str(profile),
        "fs.s3a.auth.profile.name": "tests",
    }
    fs, path = resolve(f"s3://{BUCKET}/{folder}", {**without_keys(minio), **named})
    fs.write_unique(f"{path}/a", [SMALL])
    assert read_file(fs, f"{path}/a") == SMALL


def test_keys_of_the_environment_where_they_are_named_first(
    minio: Minio, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", USER)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", PASSWORD)
    order = [
        "software.amazon.awssdk.auth.credentials.EnvironmentVariableCredentialsProvider",
        "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
    ]
    wrong = {"fs.s3a.access.key": "nobody", "fs.s3a.secret.key": "wrong-secret"}
    fs, path = resolve(f"s3://{BUCKET}/{folder}", {**without_keys(minio), **wrong, PROVIDER: ",".join(order)})
    fs.write_unique(f"{path}/a", [SMALL])
    assert read_file(fs, f"{path}/a") == SMALL
    fs, _ = resolve(f"s3://{BUCKET}/{folder}", {**without_keys(minio), **wrong, PROVIDER: ",".join(order[::-1])})
    with pytest.raises(StateStoreError, match="InvalidAccessKeyId"):
        read_file(fs, f"{path}/a")


def test_anonymous_access_to_what_is_public(minio: Minio, folder: str) -> None:
    bucket = f"public-{folder}"
    client = bare_client(minio)
    client.create_bucket(Bucket=bucket)
    allowed = {
        "Effect": "Allow",
        "Principal": {"AWS": ["*"]},
        "Action": ["s3:GetObject"],
        "Resource": [f"arn:aws:s3:::{bucket}/open/*"],
    }
    client.put_bucket_policy(Bucket=bucket, Policy=json.dumps({"Version": "2012-10-17", "Statement": [allowed]}))
    for key in ("open/a", "closed/a"):
        client.put_object(Bucket=bucket, Key=key, Body=SMALL)
    anonymous = {PROVIDER: "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"}
    fs, path = resolve(f"s3://{bucket}", {**minio.storage_options(), **anonymous})
    assert read_object(fs, f"{path}/open/a") == SMALL
    with pytest.raises(StateStoreError, match="AccessDenied"):
        read_object(fs, f"{path}/closed/a")
    with pytest.raises(StateStoreError, match="AccessDenied"):
        fs.write_unique(f"{path}/open/b", [SMALL])
