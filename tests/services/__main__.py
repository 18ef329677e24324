"""python -m tests.services: starts all servers, prints how to use them, and ends them with Ctrl-C."""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

from tests.services import s3a
from tests.services.hdfs import Hdfs
from tests.services.minio import Minio
from tests.services.missing import ServiceMissingError
from tests.services.toxiproxy import Toxiproxy

_ENDS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
_BUCKET = "checkpoints"


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="hdfsstore-services-") as scratch, ExitStack() as started:
        for start in (_hdfs, _pair, _minio, _toxiproxy):
            try:
                for line in start(Path(scratch), started):
                    print(line, flush=True)
            except ServiceMissingError as error:
                print(error)
            print(flush=True)
        print("Ctrl-C ends them.", flush=True)
        # Blocked only from here on: what was started above must not inherit it.
        signal.pthread_sigmask(signal.SIG_BLOCK, _ENDS)
        signal.sigwait(_ENDS)


def _hdfs(scratch: Path, started: ExitStack) -> Iterator[str]:
    server = Hdfs(scratch / "hdfs")
    started.callback(server.stop)
    server.start()
    yield "HDFS: one NameNode, two DataNodes"
    yield from _how_to_use_hdfs(server)
    yield f"  WebHDFS:    http://127.0.0.1:{server.http_ports[0]}/webhdfs/v1/?op=LISTSTATUS"


def _pair(scratch: Path, started: ExitStack) -> Iterator[str]:
    server = Hdfs(scratch / "hdfs-pair", pair=True)
    started.callback(server.stop)
    server.start()
    yield "HDFS: two NameNodes, of which the first is active, two DataNodes"
    yield from _how_to_use_hdfs(server)


def _how_to_use_hdfs(server: Hdfs) -> Iterator[str]:
    for kind, nodes in (("NameNodes", server.namenodes), ("DataNodes", server.datanodes)):
        processes = ", ".join(str(node.process.pid) for node in nodes)
        yield f"  {kind}:  process {processes} (kill -STOP freezes one, kill -CONT thaws it)"
    uri = server.uri("checkpoint")
    yield f"  command:    HADOOP_CONF_DIR={server.conf_dir} .venv/bin/hdfsstore inspect {uri}"
    yield f"  Python:     hdfsstore.Checkpoint({uri!r}, storage_options={dict(server.client_conf)!r})"
    yield f"  Spark:      {_confs(server.client_conf)}"


def _minio(scratch: Path, started: ExitStack) -> Iterator[str]:
    server = Minio(scratch / "minio")
    started.callback(server.stop)
    server.start()
    server.create_bucket(_BUCKET)
    options = server.storage_options()
    file = scratch / "minio.options"
    file.touch(0o600)
    file.write_text("".join(f"{name}={value}\n" for name, value in options.items()))
    uri = f"s3a://{_BUCKET}/checkpoint"
    yield f"MinIO: the bucket {_BUCKET}"
    yield f"  server:     {server.endpoint()}, process {server.process.pid}"
    yield f"  command:    .venv/bin/hdfsstore inspect {uri} --option-file {file}"
    yield f"  Python:     hdfsstore.Checkpoint({uri!r}, storage_options={options!r})"
    yield f"  Spark:      {_confs(options)} --jars {','.join(map(str, s3a.jars()))}"


def _toxiproxy(scratch: Path, started: ExitStack) -> Iterator[str]:
    server = Toxiproxy(scratch / "toxiproxy")
    started.callback(server.stop)
    server.start()
    yield "toxiproxy: stands before a server and breaks connections"
    yield f"  HTTP API:   {server.url}"
    proxy = '{"name": "slow", "listen": "127.0.0.1:0", "upstream": "127.0.0.1:PORT"}'
    yield f"  a proxy:    curl -d '{proxy}' {server.url}/proxies"
    toxic = '{"type": "latency", "attributes": {"latency": 20}}'
    yield f"  slow:       curl -d '{toxic}' {server.url}/proxies/slow/toxics"


def _confs(settings: Mapping[str, str]) -> str:
    return " ".join(f"--conf spark.hadoop.{name}={value}" for name, value in settings.items())


if __name__ == "__main__":
    main()
