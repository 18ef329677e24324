"""Each machine has a role of its own, as a container has: the driver sends no keys, and workers use those of theirs."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import SparkSession

import hdfsstore
from tests.integration.s3_managers import policy, temporary_keys
from tests.integration.session_query import STATE, run_batch, session_with
from tests.services.minio import PASSWORD, Minio

_ASKED_AT = "AWS_CONTAINER_CREDENTIALS_FULL_URI"
_PROVIDER = "software.amazon.awssdk.auth.credentials.ContainerCredentialsProvider"
_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE")


class Roles:
    """Answers as the service of a container does: by the path, which is the name of a machine, its keys.

    Attributes:
        asked: the names that keys were given for, and who asked.
    """

    def __init__(self, keys: dict[str, dict[str, str]]) -> None:
        self.asked: set[tuple[str, str]] = set()
        ends = datetime.now(UTC) + timedelta(minutes=15)
        roles = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                name = self.path.strip("/")
                agent = self.headers.get("User-Agent", "").lower()
                roles.asked.add((name, "Python" if "java" not in agent else "Java"))
                given = keys[name]
                self.send_response(200)
                self.end_headers()
                answer = {
                    "AccessKeyId": given["aws_access_key_id"],
                    "SecretAccessKey": given["aws_secret_access_key"],
                    "Token": given["aws_session_token"],
                    "Expiration": ends.strftime("%Y-%m-%dT%H:%M:%SZ"),
                }
                self.wfile.write(json.dumps(answer).encode())

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def uri(self, name: str) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}/{name}"


@pytest.fixture
def bucket(minio: Minio) -> str:
    name = f"roles-{uuid.uuid4()}"
    minio.create_bucket(name)
    return name


@pytest.fixture
def keys(minio: Minio, bucket: str) -> dict[str, dict[str, str]]:
    """The driver may write all but the state, and a worker the state alone."""
    statements = [
        {"Effect": "Allow", "Action": ["s3:*"], "Resource": ["arn:aws:s3:::*"]},
        {"Effect": "Deny", "Action": ["s3:PutObject"], "Resource": [f"arn:aws:s3:::{bucket}/*.delta"]},
    ]
    of_driver = json.dumps({"Version": "2012-10-17", "Statement": statements})
    of_worker = policy("s3:GetObject", "s3:ListBucket", **{"s3:PutObject": f"{bucket}/*.delta"})
    return {"driver": temporary_keys(minio, of_driver), "worker": temporary_keys(minio, of_worker)}


@pytest.fixture
def roles(spark: SparkSession, keys: dict[str, dict[str, str]], monkeypatch: pytest.MonkeyPatch) -> Iterator[Roles]:
    """The environment of the driver and of the workers says where each of them gets its keys."""
    found = Roles(keys)
    for name in _KEYS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(_ASKED_AT, found.uri("driver"))
    # As spark.executorEnv does at the start.
    monkeypatch.setitem(spark.sparkContext.environment, _ASKED_AT, found.uri("worker"))
    system: Any = spark._jvm.java.lang.System  # type: ignore[union-attr]
    system.setProperty("aws.containerCredentialsFullUri", found.uri("driver"))
    yield found
    system.clearProperty("aws.containerCredentialsFullUri")
    found.server.shutdown()
    found.server.server_close()


@pytest.mark.parametrize(
    "credentials",
    [{"aws.credentials.provider": _PROVIDER}, {"access.key": "", "secret.key": ""}],
    ids=["named", "nothing set"],
)
def test_workers_use_their_own_role_and_no_key_travels(
    spark: SparkSession,
    minio: Minio,
    roles: Roles,
    keys: dict[str, dict[str, str]],
    bucket: str,
    credentials: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    commands: list[bytes] = []
    dumps = CloudPickleSerializer.dumps

    def kept(self: CloudPickleSerializer, obj: object) -> bytes:
        commands.append(dumps(self, obj))
        return commands[-1]

    monkeypatch.setattr(CloudPickleSerializer, "dumps", kept)
    session = session_with(spark, {f"fs.s3a.bucket.{bucket}.{name}": value for name, value in credentials.items()})
    checkpoint = f"s3a://{bucket}/query"
    run_batch(session, checkpoint, tmp_path)
    sent = b"".join(commands)
    assert bucket.encode() in sent
    secrets = [PASSWORD, *(value for each in keys.values() for value in each.values())]
    assert [secret for secret in secrets if secret.encode() in sent] == []
    # The driver's keys may not write the state, and a worker's may write nothing else.
    assert roles.asked == {("driver", "Java"), ("driver", "Python"), ("worker", "Python")}
    opened = hdfsstore.Checkpoint(f"{checkpoint}/hdfsstore", storage_options=minio.storage_options())
    rows = opened.read_state().to_pylist()
    assert {row["key"]["user"]: row["value"]["groupState"]["total"] for row in rows} == STATE
