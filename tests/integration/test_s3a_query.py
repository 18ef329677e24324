"""A stateful query with its checkpoint on s3a, and credentials given the Hadoop way alone. No secret is in anything
that the run leaves behind or says, and the checkpoint is opened in place."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path

import hdfsstore
from tests.integration.s3_managers import ROLE_ARN, bare_client
from tests.services import java, s3a
from tests.services.certificates import DOMAIN, make_trust_store
from tests.services.fixtures import needed
from tests.services.hdfs_node import write_xml
from tests.services.http_proxy import HttpProxy
from tests.services.minio import PASSWORD, Minio

ROOT = Path(__file__).parents[2]
# Two executors, each in a JVM of its own.
_MASTER = "local-cluster[2,1,1024]"
_LOGIN = ("proxy-user", "the-password-of-the-proxy")
CUSTOMER_KEY = base64.b64encode(bytes(range(32))).decode()
ENCRYPTION = {"fs.s3a.encryption.algorithm": "SSE-C", "fs.s3a.encryption.key": CUSTOMER_KEY}


@dataclass(frozen=True)
class Run:
    """What is left of a run.

    Attributes:
        checkpoint: its URI.
        left: the folder with all that the driver and the executors wrote.
        said: what the driver said.
        secrets: what must be in nothing of it: keys of the user, those of the role that tasks used, a password.
    """

    checkpoint: str
    left: Path
    said: str
    secrets: list[str]

    def shown_in(self, content: bytes) -> list[str]:
        """The secrets in what Java or Python has written: as they are, and in UTF-16."""
        forms = ("utf-8", "utf-16-le", "utf-16-be")
        return [secret for secret in self.secrets if any(secret.encode(form) in content for form in forms)]


def test_a_run_shows_no_secret_and_is_opened_in_place(secure_minio: Minio, tmp_path: Path) -> None:
    needed(s3a.jars)
    run = run_query(secure_minio, tmp_path)
    check_what_is_left(run)
    check_objects(run, secure_minio)
    check_checkpoint(run, secure_minio)


def run_query(secure_minio: Minio, folder: Path) -> Run:
    """Of a role that is assumed through a proxy with a password, with a key of the customer."""
    conf, left, keys, trust = (folder / name for name in ("conf", "left", "keys", "trust"))
    conf.mkdir()
    for name in ("events", "input", "tmp"):
        (left / name).mkdir(parents=True)
    # Executors have their folders in Spark's.
    home = left / "spark"
    home.mkdir()
    for entry in java.spark_jars().parent.iterdir():
        (home / entry.name).symlink_to(entry)
    bucket = f"query-{uuid.uuid4()}"
    bare_client(secure_minio).create_bucket(Bucket=bucket)
    assert secure_minio.ca_file is not None
    make_trust_store(trust, secure_minio.ca_file)
    checkpoint = f"s3a://{bucket}/cp"
    with HttpProxy(secure_minio.port, *_LOGIN) as proxy:
        role = {
            "fs.s3a.endpoint": f"https://{DOMAIN}",
            "fs.s3a.aws.credentials.provider": "org.apache.hadoop.fs.s3a.auth.AssumedRoleCredentialProvider",
            "fs.s3a.assumed.role.arn": ROLE_ARN,
            "fs.s3a.assumed.role.sts.endpoint": DOMAIN,
            "fs.s3a.assumed.role.sts.endpoint.region": "us-east-1",
        }
        settings = {**secure_minio.storage_options(), **proxy.storage_options(), **ENCRYPTION, **role}
        write_xml(conf / "core-site.xml", settings)
        environ = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")} | {
            "AWS_CA_BUNDLE": str(secure_minio.ca_file),
            "HADOOP_CONF_DIR": str(conf),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "TMPDIR": str(left / "tmp"),
            "PYTHONPATH": str(ROOT),
        }
        command = [sys.executable, "-m", "tests.integration.s3a_driver", _MASTER, checkpoint, str(left)]
        done = subprocess.run(
            [*command, str(trust), str(keys)], cwd=ROOT, env=environ, capture_output=True, text=True, timeout=300
        )
    assert done.returncode == 0, "\n".join(line for line in done.stderr.splitlines() if " DEBUG " not in line)[-5000:]
    of_role = keys.read_text().split()
    assert len(of_role) == 2
    return Run(checkpoint, left, done.stdout + done.stderr, [PASSWORD, CUSTOMER_KEY, _LOGIN[1], *of_role])


def check_what_is_left(run: Run) -> None:
    """No secret is in a file, a log or a message."""
    assert run.shown_in(run.said.encode()) == []
    files = [path for path in run.left.rglob("*") if path.is_file() and not path.is_symlink()]
    for kind in ("seen-*", "rest-*", "events/**/*"):
        assert [path for path in run.left.glob(kind) if path in files], kind
    log = (run.left / "driver.log").read_text("utf-8", "replace")
    assert "hdfsstore" in log
    assert "x-amz-security-token:***" in log
    assert any(b"SparkListenerTaskEnd" in path.read_bytes() for path in run.left.glob("events/**/*") if path in files)
    assert [(path, found) for path in files if (found := run.shown_in(path.read_bytes()))] == []


def check_objects(run: Run, secure_minio: Minio) -> None:
    """No secret is in what the run has written, as those read it who have the key of the customer."""
    client, bucket = bare_client(secure_minio), run.checkpoint.split("/")[2]
    customer = {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": base64.b64decode(CUSTOMER_KEY)}
    names = [each["Key"] for each in client.list_objects_v2(Bucket=bucket)["Contents"]]
    content = {name: client.get_object(Bucket=bucket, Key=name, **customer)["Body"].read() for name in names}
    for kind in ("offsets/0", "hdfsstore/offsets/", "hdfsstore/state/"):
        assert any(f"/{kind}" in name for name in names), names
    assert json.loads(content["cp/metadata"])
    assert [name for name in names if run.shown_in(content[name]) or run.shown_in(name.encode())] == []


def check_checkpoint(run: Run, secure_minio: Minio) -> None:
    options = {**secure_minio.storage_options(), **ENCRYPTION, "aws_ca_bundle": str(secure_minio.ca_file)}
    opened = hdfsstore.Checkpoint(f"{run.checkpoint}/hdfsstore", storage_options=options)
    rows = opened.read_state().to_pylist()
    assert {row["key"]["user"]: row["value"]["groupState"]["total"] for row in rows} == {"ann": 3, "bob": 30}
    assert run.shown_in(repr(opened).encode()) == []
