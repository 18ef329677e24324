"""What it takes to reach one HDFS. It is plain data: it travels from the driver to the workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias, get_args

ClientName: TypeAlias = Literal["hdfs-native", "libhdfs"]

CLIENT_NAMES: Final[tuple[ClientName, ...]] = get_args(ClientName)

DEFAULT_TIMEOUT_S: Final = 120.0


@dataclass(frozen=True, slots=True)
class HdfsSettings:
    """How to reach one HDFS.

    Attributes:
        authority: a nameservice of `conf`, or host:port of the NameNode.
        conf: Hadoop's settings (core-site.xml, hdfs-site.xml) that count for the client. They hold no credentials, but
            names of hosts, and a repr does not show them.
        client: the one to use; None: choose_client.py finds one.
        user: the user that HDFS without Kerberos sees; None: HADOOP_USER_NAME, or the user of the process.
        timeout_s: `hdfsstore.fs.timeout` in seconds. No call lasts longer.
        servers_protect: Hadoop's own client has found that the servers protect connections as `conf` asks.
    """

    authority: str
    conf: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    client: ClientName | None = None
    user: str | None = None
    timeout_s: float = DEFAULT_TIMEOUT_S
    servers_protect: bool = False

    @classmethod
    def of(
        cls,
        authority: str,
        conf: Mapping[str, str],
        *,
        client: ClientName | None = None,
        user: str | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        servers_protect: bool = False,
    ) -> HdfsSettings:
        """Settings that are equal, and hash alike, for equal values in whatever order."""
        return cls(authority, tuple(sorted(conf.items())), client, user, timeout_s, servers_protect)

    @property
    def url(self) -> str:
        """`hdfs://authority`, which is also the identity of the storage."""
        return f"hdfs://{self.authority}"
