"""Where the checkpoints of histories are: beside their other files, or below the URI that CHAOS_STORAGE names.

Credentials and whatever else it takes to reach that are in HADOOP_CONF_DIR alone, for Spark as for us.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hdfsstore.fs.location import resolve
from tests.chaos.outages import Outage, of_hdfs, of_minio
from tests.services.fault_proxy import FaultProxy
from tests.services.hdfs import Hdfs
from tests.services.hdfs_node import write_xml
from tests.services.minio import Minio
from tests.services.places import BUCKET
from tests.services.toxiproxy import Toxiproxy
from tests.support.remote_path import RemotePath

_STORAGE = "CHAOS_STORAGE"
# Of s3a, whose waits double with each try: from these on, an outage holds a query up for seconds and not for minutes.
_RETRIES = {"fs.s3a.retry.interval": "100ms", "fs.s3a.retry.throttle.interval": "100ms"}
STORAGES = ("local", "hdfs", "minio")
# What a driver says that gives up because of its storage: our errors, those of s3a and HDFS, and those of Spark's log,
# which takes the lost answer to a rename for another driver. BatchAlreadyLoggedError is none of them.
_FAILURES = re.compile(
    r"FileSystemTimeoutError|errors\.StateStoreError|AWS\w*Exception|Sdk\w*Exception|NoHttpResponseException"
    r"|ConnectException|SocketException|SocketTimeoutException|EOFException|StandbyException|RetriableException"
    r"|RemoteException|CONCURRENT_STREAM_LOG_UPDATE|Multiple streaming jobs detected"
    # Of these s3a and Spark pass on the text alone. The last: an answer whose headers were cut has no date for s3a.
    r"|Premature end of|Truncated chunk|software\.amazon\.awssdk\.\S+ is null"
)


def is_local() -> bool:
    """Whether the checkpoints of this process are on a local disk."""
    return _STORAGE not in os.environ


def is_s3() -> bool:
    """Whether they are on S3."""
    return os.environ.get(_STORAGE, "").startswith("s3a:")


def checkpoint_of(folder: Path) -> tuple[str, Any]:
    """The checkpoint of the query whose other files are in the folder: its URI, and a path as of pathlib."""
    if is_local():
        path = folder / "checkpoint"
        return path.absolute().as_uri(), path
    uri = f"{os.environ[_STORAGE]}{folder.absolute()}/checkpoint"
    return uri, RemotePath(*resolve(uri))


def failure_of_storage(text: str) -> str | None:
    """The name of the storage's failure that ended a driver; None: something else did."""
    found = None if is_local() else _FAILURES.search(text)
    return found[0] if found else None


def environ_of(uri: str, conf_dir: Path) -> dict[str, str]:
    """What the environment of a process says whose checkpoints are below a URI."""
    return {_STORAGE: uri, "HADOOP_CONF_DIR": os.fspath(conf_dir)}


@dataclass(frozen=True)
class Storage:
    """A running storage.

    Attributes:
        environ: of processes whose checkpoints are there.
        outages: what can go wrong with it, by name.
    """

    environ: dict[str, str]
    outages: dict[str, Outage]


@contextmanager
def running_storage(name: str, folder: Path) -> Iterator[Storage]:
    """One of STORAGES, for as long as the `with` lasts; the files of its servers are in the folder.

    Raises:
        ServiceMissingError: a server cannot be had.
    """
    with ExitStack() as started:
        if name == "local":
            yield Storage({}, {})
        elif name == "hdfs":
            hdfs = Hdfs(folder / "hdfs", pair=True)
            started.callback(hdfs.stop)
            hdfs.start()
            yield Storage(environ_of(hdfs.uri("chaos"), hdfs.conf_dir), of_hdfs(hdfs))
        else:
            minio, toxiproxy = Minio(folder / "minio"), Toxiproxy(folder / "toxiproxy")
            for server in (minio, toxiproxy):
                started.callback(server.stop)
                server.start()
            minio.create_bucket(BUCKET)
            answers = started.enter_context(FaultProxy(minio.port))
            link = started.enter_context(toxiproxy.before(answers.port))
            conf_dir = folder / "conf"
            conf_dir.mkdir()
            write_xml(conf_dir / "core-site.xml", minio.storage_options(link.port) | _RETRIES)
            yield Storage(environ_of(f"s3a://{BUCKET}", conf_dir), of_minio(link, answers))
