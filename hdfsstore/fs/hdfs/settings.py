"""What it takes to reach one HDFS. It is plain data: it travels from the driver to the workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias, get_args

ClientName: TypeAlias = Literal["hdfs-native", "libhdfs"]

CLIENT_NAMES: Final[tuple[ClientName, ...]] = get_args(ClientName)

DEFAULT_TIMEOUT_S: Final = 120.0

# What hdfs-native looks at. A name that ends with a point has a nameservice or more behind it.
NATIVE_KEYS: Final = (
    "dfs.client.block.write.replace-datanode-on-failure.best-effort",
    "dfs.client.block.write.replace-datanode-on-failure.enable",
    "dfs.client.block.write.replace-datanode-on-failure.policy",
    "dfs.client.failover.max.attempts",
    "dfs.client.failover.proxy.provider.",
    "dfs.client.failover.random.order",
    "dfs.client.failover.random.order.",
    "dfs.client.failover.resolve-needed.",
    "dfs.client.failover.resolver.useFQDN.",
    "dfs.client.failover.sleep.base.millis",
    "dfs.client.failover.sleep.max.millis",
    "dfs.client.socket-timeout",
    "dfs.client.use.datanode.hostname",
    "dfs.data.transfer.protection",
    "dfs.ha.namenodes.",
    "dfs.namenode.rpc-address.",
    "hadoop.security.authentication",
    "hadoop.security.key.provider.path",
)


def is_native_key(key: str) -> bool:
    """hdfs-native honours this Hadoop setting."""
    return key in NATIVE_KEYS or any(key.startswith(prefix) for prefix in NATIVE_KEYS if prefix.endswith("."))


@dataclass(frozen=True, slots=True)
class HdfsSettings:
    """How to reach one HDFS.

    Attributes:
        authority: a nameservice of `conf`, or host:port of the NameNode.
        conf: Hadoop's settings (core-site.xml, hdfs-site.xml) that count for the client. They hold no credentials, but
            names of hosts, and a repr does not show them.
        client: the one to use; None: libhdfs where it can be loaded, else hdfs-native.
        user: the user that HDFS without Kerberos sees; None: HADOOP_USER_NAME, or the user of the process.
        timeout_s: `hdfsstore.fs.timeout` in seconds. No call lasts longer.
    """

    authority: str
    conf: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    client: ClientName | None = None
    user: str | None = None
    timeout_s: float = DEFAULT_TIMEOUT_S

    @classmethod
    def of(
        cls,
        authority: str,
        conf: Mapping[str, str],
        *,
        client: ClientName | None = None,
        user: str | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> HdfsSettings:
        """Settings that are equal, and hash alike, for equal values in whatever order."""
        return cls(authority, tuple(sorted(conf.items())), client, user, timeout_s)

    @property
    def url(self) -> str:
        """`hdfs://authority`, which is also the identity of the storage."""
        return f"hdfs://{self.authority}"
