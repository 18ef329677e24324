"""Sessions of Spark have keys of their own for one bucket. A query goes on when its keys are replaced."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

import hdfsstore
from hdfsstore.errors import StateStoreError
from hdfsstore.fs.location import resolve
from tests.integration.s3_managers import policy, revoke_temporary_keys, temporary_keys
from tests.services import java, s3a
from tests.services.fixtures import needed
from tests.services.minio import Minio
from tests.services.places import BUCKET
from tests.services.process import ServerProcess
from tests.support.waiting import WAIT_SECONDS

ROOT = Path(__file__).parents[2]
_NAMES = {
    "aws_access_key_id": "fs.s3a.access.key",
    "aws_secret_access_key": "fs.s3a.secret.key",
    "aws_session_token": "fs.s3a.session.token",
}
_NAMES_OF_PROCESS = {
    "aws_access_key_id": "AccessKeyId",
    "aws_secret_access_key": "SecretAccessKey",
    "aws_session_token": "SessionToken",
}
_PROVIDERS = "fs.s3a.aws.credentials.provider"
_TEMPORARY = "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider"
_PROFILE = "software.amazon.awssdk.auth.credentials.ProfileCredentialsProvider"
# The SDK has asked for keys again by then.
_ASKS_AGAIN_S = 3
# By name of a session: its checkpoint and its settings.
Sessions = Mapping[str, tuple[str, Mapping[str, str]]]


@pytest.fixture(autouse=True)
def jars() -> None:
    needed(s3a.jars)


@pytest.fixture
def general(minio: Minio) -> dict[str, str]:
    """The settings without keys."""
    return {name: value for name, value in minio.storage_options().items() if not name.endswith(".key")}


@contextmanager
def running(sessions: Sessions, folder: Path, **environ: str) -> Iterator[ServerProcess]:
    """A driver whose queries have finished their first batches; the block ends after their second ones."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "HADOOP_"))}
    spark = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": str(ROOT)}
    driver = ServerProcess(
        [sys.executable, "-m", "tests.integration.s3a_sessions_driver", str(folder)],
        log=folder / "driver.log",
        environ=inherited | spark | environ,
        talks=True,
    )
    try:
        driver.say(json.dumps(sessions))
        assert driver.read_line(WAIT_SECONDS) == "1"
        yield driver
        driver.say("")
        assert driver.read_line(WAIT_SECONDS) == "2"
        driver.say("")
        assert driver.read_line(WAIT_SECONDS) == "stopped"
    finally:
        driver.terminate()


def check_totals(sessions: Sessions, minio: Minio) -> None:
    for name, (checkpoint, _) in sessions.items():
        opened = hdfsstore.Checkpoint(f"{checkpoint}/hdfsstore", storage_options=minio.storage_options())
        rows = opened.read_state().to_pylist()
        assert [(row["key"]["user"], row["value"]["groupState"]["total"]) for row in rows] == [(name, 3)]


def keys_for(minio: Minio, folder: str) -> dict[str, str]:
    """Keys under s3a's names that may write to one folder only."""
    own = f"{BUCKET}/{folder}/*"
    given = temporary_keys(
        minio, policy("s3:GetObject", "s3:ListBucket", **{"s3:PutObject": own, "s3:DeleteObject": own})
    )
    return {_NAMES[name]: value for name, value in given.items()}


def test_each_query_has_the_keys_of_its_session(minio: Minio, general: dict[str, str], tmp_path: Path) -> None:
    general[_PROVIDERS] = _TEMPORARY
    sessions = {}
    keys: dict[str, dict[str, str]] = {}
    for name in ("plain", "jceks"):
        folder = str(uuid.uuid4())
        keys[name] = keys_for(minio, folder)
        sessions[name] = (f"s3a://{BUCKET}/{folder}/cp", {**general, **keys[name]})
    # Each key is good for its own folder alone, so the queries fail if they share a client.
    files, path = resolve(sessions["jceks"][0].replace("s3a", "s3"), {**general, **keys["plain"]})
    with pytest.raises(StateStoreError, match="AccessDenied"):
        files.write_unique(f"{path}/x", [b""])
    store = f"jceks://file{tmp_path}/keys.jceks"
    shell = [java.executable(), "-cp", ":".join(map(str, java.spark_jars().glob("*.jar")))]
    shell += ["org.apache.hadoop.security.alias.CredentialShell", "create"]
    for key, value in keys["jceks"].items():
        subprocess.run([*shell, key, "-value", value, "-provider", store], check=True, capture_output=True)
    sessions["jceks"] = sessions["jceks"][0], {**general, "hadoop.security.credential.provider.path": store}
    with running(sessions, tmp_path):
        pass
    check_totals(sessions, minio)


def give_keys(script: Path, minio: Minio) -> None:
    """New keys, in place of the old ones. Whoever takes them asks again after a second."""
    keys = temporary_keys(minio, policy("s3:*"))
    said = {"Version": 1, **{_NAMES_OF_PROCESS[name]: value for name, value in keys.items()}, "Expiration": "%s"}
    made = script.with_suffix(".new")
    made.write_text(f"#!/bin/sh\nprintf '{json.dumps(said)}' $(date -u -d '+1 second' +%Y-%m-%dT%H:%M:%SZ)\n")
    made.chmod(0o700)
    made.replace(script)


def test_a_query_goes_on_with_renewed_keys(minio: Minio, general: dict[str, str], tmp_path: Path) -> None:
    script, profile = tmp_path / "keys", tmp_path / "profile"
    give_keys(script, minio)
    profile.write_text(f"[default]\ncredential_process = {script}\n")
    sessions = {"renewed": (f"s3a://{BUCKET}/{uuid.uuid4()}/cp", {**general, _PROVIDERS: _PROFILE})}
    with running(sessions, tmp_path, AWS_SHARED_CREDENTIALS_FILE=str(profile)):
        revoke_temporary_keys(minio)
        give_keys(script, minio)
        time.sleep(_ASKS_AGAIN_S)
    check_totals(sessions, minio)
