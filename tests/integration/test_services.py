"""The servers themselves: they end with the run, and do what tests of faults ask of them."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import signal
import socket
import subprocess
import sys
import textwrap
import time
import urllib.request
from pathlib import Path

import pytest

from tests.services.hdfs import Hdfs
from tests.services.minio import Minio
from tests.services.process import ServerProcess
from tests.services.toxiproxy import Toxiproxy

ROOT = Path(__file__).parents[2]
# 127.0.0.1, the same as an address of IPv6, and that one's own.
_LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}


@pytest.mark.parametrize("frozen", [False, True])
def test_servers_end_with_a_run_that_is_killed(frozen: bool, tmp_path: Path) -> None:
    """Even one that is frozen and hears no signal but SIGKILL."""
    program = f"""
        import sys, time
        from pathlib import Path
        from tests.services.process import ServerProcess
        command = [sys.executable, "-c", "import time; time.sleep(600)"]
        server = ServerProcess(command, log=Path({str(tmp_path / "log")!r}))
        if {frozen}:
            server.freeze()
        print(server.pid, flush=True)
        time.sleep(600)
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        pid = int(run.stdout.readline())
        assert _alive(pid)
        run.kill()
    end = time.monotonic() + 30
    while _alive(pid):
        assert time.monotonic() < end
        time.sleep(0.05)


def _listening(pid: int) -> set[str]:
    """The addresses, in hexadecimal as the kernel has them, at which a process waits for connections."""
    sockets = set()
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            sockets.add(str(fd.readlink()))
    tables = [Path(f"/proc/{pid}/net/{name}").read_text().splitlines()[1:] for name in ("tcp", "tcp6")]
    rows = [line.split() for table in tables for line in table]
    return {row[1].split(":")[0] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in sockets}


@pytest.mark.usefixtures("hdfs", "minio", "toxiproxy")
def test_make_services_says_how_to_use_servers_that_run() -> None:
    """The fixtures tell whether servers can be had. The commands that it prints reach servers without a checkpoint."""
    with subprocess.Popen([sys.executable, "-m", "tests.services"], cwd=ROOT, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        lines = list(itertools.takewhile(lambda line: "Ctrl-C" not in line, run.stdout))
        try:
            said = "".join(lines)
            for name in ("HDFS: one NameNode", "HDFS: two NameNodes", "MinIO: ", "toxiproxy: "):
                assert name in said
            assert sum("Spark:" in line and "--conf spark.hadoop." in line for line in lines) == 3
            pids = [int(pid) for line in lines for pid in re.findall(r"\d+", line.partition("process ")[2])]
            assert len(pids) == 8
            for pid in pids:
                assert _listening(pid)
                assert _listening(pid) <= _LOOPBACK
            commands = [line.partition("command:")[2].strip() for line in lines if "command:" in line]
            assert len(commands) == 3
            for command in commands:
                done = subprocess.run(["sh", "-c", command], cwd=ROOT, capture_output=True, text=True, timeout=120)
                assert done.returncode != 0
                assert "there is no checkpoint here" in done.stderr
        finally:
            run.send_signal(signal.SIGTERM)
    assert run.returncode == 0
    assert not [pid for pid in pids if _alive(pid)]


def test_a_server_that_ended_by_itself_can_be_ended_again(tmp_path: Path) -> None:
    server = ServerProcess([sys.executable, "-c", "print('up')"], log=tmp_path / "log", talks=True)
    assert server.read_line(30) == "up"
    with pytest.raises(EOFError, match="has ended"):
        server.read_line(30)
    server.kill()
    server.terminate()
    assert not server.running()


def test_hdfs_goes_through_safe_mode_and_restarts(hdfs: Hdfs, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("content")
    hdfs.active.run("fs", "-put", str(file), "/services-file")
    hdfs.safe_mode(True)
    with pytest.raises(RuntimeError, match="safe mode"):
        hdfs.active.run("fs", "-touchz", "/services-other")
    hdfs.safe_mode(False)
    hdfs.restart_namenode()
    hdfs.datanodes[0].stop()
    try:
        assert hdfs.active.run("fs", "-cat", "/services-file") == "content"
    finally:
        hdfs.datanodes[0].start()
    hdfs.wait_until_writable()


def test_the_second_namenode_takes_over_from_a_frozen_one(hdfs_ha: Hdfs, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("content")
    hdfs_ha.active.run("fs", "-put", str(file), "/services-file")
    hdfs_ha.active.process.freeze()
    hdfs_ha.fail_over()
    assert hdfs_ha.active.run("fs", "-cat", "/services-file") == "content"
    hdfs_ha.fail_over()
    assert hdfs_ha.active.run("fs", "-cat", "/services-file") == "content"


def test_a_proxy_stands_before_a_server_and_breaks_connections(minio: Minio, toxiproxy: Toxiproxy) -> None:
    with toxiproxy.before(minio.port) as proxy:
        url = f"{minio.endpoint(proxy.port)}/minio/health/live"
        assert _status(url) == 200
        with proxy.toxic("latency", latency=300):
            start = time.monotonic()
            assert _status(url) == 200
            assert time.monotonic() - start >= 0.3
        with proxy.toxic("reset_peer", timeout=0), pytest.raises(OSError):  # noqa: PT011  # of any kind
            _status(url)
        # The server's answer is lost; that it hangs up afterwards comes through.
        with proxy.toxic("timeout", timeout=0), pytest.raises(OSError):  # noqa: PT011
            _status(url)
        with proxy.down(), pytest.raises(OSError):  # noqa: PT011
            _status(url)
        assert _status(url) == 200
    with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", proxy.port)):
        pass


def _status(url: str) -> int:
    with urllib.request.urlopen(url, timeout=30) as answer:
        return int(answer.status)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIG_DFL)
    except ProcessLookupError:
        return False
    return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()


def test_a_node_whose_port_somebody_has_for_a_while_starts_after_it(tmp_path: Path) -> None:
    cluster = Hdfs(tmp_path)
    with socket.socket() as somebody:
        somebody.bind(("127.0.0.1", cluster.rpc_ports[0]))
        somebody.listen()
        cluster.namenodes[0].launch(after_format=True)
        with pytest.raises(EOFError, match="BindException"):
            cluster.namenodes[0].process.read_line(60)
    try:
        cluster.namenodes[0].wait_until_up()
        cluster.namenodes[0].run("dfsadmin", "-report")
    finally:
        cluster.stop()


def test_no_two_processes_are_given_one_port() -> None:
    program = "from tests.services.ports import free_port; [print(free_port()) for _ in range(500)]; input()"
    command = [sys.executable, "-c", program]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    runs = [subprocess.Popen(command, cwd=ROOT, **pipes) for _ in range(4)]
    ports = [run.stdout.readline() for _ in range(500) for run in runs]
    for run in runs:
        run.communicate("\n")
    assert len(set(ports)) == len(ports) == 2000
