"""A real HDFS: one NameNode, or two of which one is active, and two DataNodes, each in a process of its own."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from tests.services.hdfs_node import HdfsNode, write_xml
from tests.services.ports import free_port

_NAMESERVICE = "hdfsstore"
_DATANODES = 2
_SETTLE_SECONDS = 60


class Hdfs:
    """A cluster with its files in `folder`.

    Args:
        folder: does not exist yet, or is empty.
        pair: two NameNodes, of which the first is active and the second stands by.
        conf: further settings of the servers.
        jvm: further options of their JVMs.

    Attributes:
        namenodes, datanodes: its nodes, to stop and start, or freeze.
        authority: of its URIs: host:port, or the name of the pair.
        client_conf: what a client needs to know.
        conf_dir: a HADOOP_CONF_DIR that says so too.
        rpc_ports, http_ports: of the NameNodes.
    """

    def __init__(
        self, folder: Path, *, pair: bool = False, conf: dict[str, str] | None = None, jvm: Sequence[str] = ()
    ) -> None:
        names = [f"nn{number}" for number in range(1 + pair)]
        self.rpc_ports = [free_port() for _ in names]
        self.http_ports = [free_port() for _ in names]
        self.authority = _NAMESERVICE if pair else f"127.0.0.1:{self.rpc_ports[0]}"
        self._folder = folder
        self._active = 0
        self.client_conf = {"fs.defaultFS": f"hdfs://{self.authority}", "dfs.replication": str(_DATANODES)}
        if pair:
            self.client_conf |= self._pair_conf(names)
        self.conf_dir = folder / "conf"
        self.conf_dir.mkdir(parents=True)
        write_xml(self.conf_dir / "core-site.xml", {"fs.defaultFS": self.client_conf["fs.defaultFS"]})
        write_xml(self.conf_dir / "hdfs-site.xml", self.client_conf)
        shared = self.client_conf | self._server_conf() | (conf or {})
        self.namenodes = [
            HdfsNode("namenode", folder / name, shared | self._namenode_conf(number, name if pair else None), jvm)
            for number, name in enumerate(names)
        ]
        self.datanodes = [
            HdfsNode("datanode", folder / f"dn{number}", shared | self._datanode_conf(number), jvm)
            for number in range(_DATANODES)
        ]

    @property
    def active(self) -> HdfsNode:
        """The NameNode that answers clients."""
        return self.namenodes[self._active]

    @property
    def data_folders(self) -> list[Path]:
        """Where the DataNodes keep blocks."""
        return [self._data(number) for number in range(_DATANODES)]

    def uri(self, path: str, port: int | None = None) -> str:
        """The URI of a path from the root, through another port (a proxy's) where one is given."""
        return f"hdfs://{self.authority if port is None else f'127.0.0.1:{port}'}/{path}"

    def start(self) -> None:
        """For the first time."""
        first, *others = self.namenodes
        first.launch(after_format=True)
        if others:
            first.wait_until_up()
            shutil.copytree(self._names(0), self._names(1))
            others[0].launch()
            self._make_active()
        for node in self.datanodes:
            node.launch()
        for node in (*(others or self.namenodes), *self.datanodes):
            node.wait_until_up()
        self.wait_until_writable()

    def stop(self) -> None:
        for node in (*self.namenodes, *self.datanodes):
            node.stop()

    def restart_namenode(self) -> None:
        """Stops the active NameNode and starts it again."""
        self.active.stop()
        self.start_namenode()

    def start_namenode(self) -> None:
        """Starts the active NameNode, which was stopped, and waits until files can be written."""
        self.active.start()
        if len(self.namenodes) > 1:
            self._make_active()
        self.wait_until_writable()

    def fail_over(self) -> None:
        """The NameNode that stands by takes over. The active one, which may be frozen, is ended first and then stands
        by, as a cluster that fences does it."""
        former = self.active
        former.stop()
        self._active = 1 - self._active
        self._make_active()
        self.wait_until_writable()
        former.start()

    def safe_mode(self, on: bool) -> None:
        """Nothing can be written, or again."""
        self.active.run("dfsadmin", "-safemode", "enter" if on else "leave")

    def _make_active(self) -> None:
        # By force: else Hadoop asks the other one, which may not be there.
        self.active.run("haadmin", "-transitionToActive", "--forceactive", f"nn{self._active}")

    def wait_until_writable(self) -> None:
        """After a start the NameNode waits for the DataNodes to come back and say what they have."""
        end = time.monotonic() + _SETTLE_SECONDS
        expected = sum(node.started for node in self.datanodes)
        while True:
            report = self.active.run("dfsadmin", "-report", "-live")
            found = re.search(r"Live datanodes \((\d+)\)", report)
            known = found is not None and int(found[1]) >= expected and not re.search(r"Missing blocks: [1-9]", report)
            if known and "Safe mode is ON" not in report:
                return
            if time.monotonic() > end:
                raise TimeoutError(f"HDFS does not come up:\n{report}\n{self.active.process.log_end()}")
            time.sleep(0.05)

    def _data(self, number: int) -> Path:
        return self._folder / f"dn{number}-data"

    def _names(self, number: int) -> Path:
        return self._folder / f"nn{number}-names"

    def _pair_conf(self, names: list[str]) -> dict[str, str]:
        addresses = {
            f"dfs.namenode.{kind}-address.{_NAMESERVICE}.{name}": f"127.0.0.1:{port}"
            for kind, ports in (("rpc", self.rpc_ports), ("http", self.http_ports))
            for name, port in zip(names, ports, strict=True)
        }
        provider = "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider"
        return {
            "dfs.nameservices": _NAMESERVICE,
            f"dfs.ha.namenodes.{_NAMESERVICE}": ",".join(names),
            f"dfs.client.failover.proxy.provider.{_NAMESERVICE}": provider,
            **addresses,
        }

    def _server_conf(self) -> dict[str, str]:
        return {
            # Else a client that closes a file waits for both DataNodes to tell the NameNode, half a second at a time.
            "dfs.namenode.file.close.num-committed-allowed": "1",
            "dfs.heartbeat.interval": "1",
            "dfs.namenode.redundancy.interval.seconds": "1",
            "dfs.namenode.safemode.extension": "0",
            # A NameNode that starts again can be written to once a DataNode has come back.
            "dfs.namenode.safemode.min.datanodes": "1",
            "dfs.namenode.fs-limits.min-block-size": "4096",
        }

    def _namenode_conf(self, number: int, name: str | None) -> dict[str, str]:
        conf = {"dfs.namenode.name.dir": self._names(number).as_uri()}
        if name is None:
            return conf | {
                "dfs.namenode.rpc-address": f"127.0.0.1:{self.rpc_ports[number]}",
                "dfs.namenode.http-address": f"127.0.0.1:{self.http_ports[number]}",
            }
        return conf | {
            "dfs.ha.namenode.id": name,
            "dfs.namenode.shared.edits.dir": (self._folder / "edits").as_uri(),
            "dfs.ha.tail-edits.period": "1s",
        }

    def _datanode_conf(self, number: int) -> dict[str, str]:
        kinds = ("address", "http.address", "ipc.address")
        addresses = {f"dfs.datanode.{kind}": f"127.0.0.1:{free_port()}" for kind in kinds}
        return {"dfs.datanode.data.dir": self._data(number).as_uri(), **addresses}
