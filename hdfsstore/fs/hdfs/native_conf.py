"""What becomes of Hadoop's settings where hdfs-native is the client.

what                                            becomes
the keys of NATIVE_KEYS                         given to hdfs-native
dfs.replication, dfs.blocksize,                 given to each create: hdfs-native does not look at them
fs.permissions.umask-mode
retries and timeouts, unless somebody has set   short: HdfsFileManager tries again itself
others than Hadoop's defaults
who protects the connections, and how they are  refused by name
made, by classes or servers of the user
how connections are protected (PROTECTIONS)     it takes the strongest that a server offers. It insists on none, so
                                                that values without `authentication` are refused, unless it is known
                                                what the servers offer
the user                                        that of HADOOP_USER_NAME: another one is refused
any other key                                   has no meaning outside a JVM
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Final

from hdfsstore.errors import UnsupportedSettingError
from hdfsstore.fs.hdfs.settings import HdfsSettings

# A name that ends with a point has a nameservice or more behind it.
NATIVE_KEYS: Final = (
    "dfs.client.block.write.replace-datanode-on-failure.best-effort",
    "dfs.client.block.write.replace-datanode-on-failure.enable",
    "dfs.client.block.write.replace-datanode-on-failure.policy",
    "dfs.client.failover.max.attempts",
    "dfs.client.failover.proxy.provider.",
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
# By key: Hadoop's default, which Spark's configuration has even if nobody has set it, and ours.
_DEFAULTS = {
    "dfs.client.failover.max.attempts": ("15", "3"),
    "dfs.client.failover.sleep.base.millis": ("500", "50"),
    "dfs.client.failover.sleep.max.millis": ("15000", "200"),
    "dfs.client.socket-timeout": ("60000", "20000"),
}
# Who protects the connections and how they are made, and how many replicas a written block has at least: only a JVM can
# honour these. By key: the values that ask for nothing.
REFUSED: Final = {
    "dfs.client.block.write.replace-datanode-on-failure.min-replication": ("0", "1"),
    "dfs.data.transfer.saslproperties.resolver.class": (),
    "dfs.trustedchannel.resolver.class": ("org.apache.hadoop.hdfs.protocol.datatransfer.TrustedChannelResolver",),
    "hadoop.rpc.socket.factory.class.default": ("org.apache.hadoop.net.StandardSocketFactory",),
    "hadoop.rpc.socket.factory.class.ClientProtocol": ("org.apache.hadoop.net.StandardSocketFactory",),
    "hadoop.security.sasl.CustomizedCallbackHandler.class": (),
    "hadoop.security.sasl.mechanism": ("DIGEST-MD5",),
    "hadoop.security.saslproperties.resolver.class": ("org.apache.hadoop.security.SaslPropertiesResolver",),
    "hadoop.socks.server": (),
}
# With Kerberos: `authentication`, `integrity` and `privacy`, as a list of what will do.
PROTECTIONS: Final = ("dfs.data.transfer.protection", "hadoop.rpc.protection")
_SIZE = re.compile(r"(\d{1,19})([kmgtpe]?)", re.IGNORECASE)
_UMASK = "fs.permissions.umask-mode"
_DEFAULT_UMASK = "022"
_USER = "HADOOP_USER_NAME"


def is_native_key(key: str) -> bool:
    """hdfs-native looks at this setting of Hadoop."""
    return key in NATIVE_KEYS or any(key.startswith(prefix) for prefix in NATIVE_KEYS if prefix.endswith("."))


def act_as(settings: HdfsSettings) -> None:
    """Has hdfs-native act as the user of the settings, in this process.

    Raises:
        UnsupportedSettingError: the process acts as another user.
    """
    if settings.user is None:
        return
    kerberos = _is_kerberized(dict(settings.conf))
    named = os.environ.get(_USER)
    if kerberos or (named is not None and named != settings.user):
        raise UnsupportedSettingError(
            f"hdfs-native cannot act as the user {settings.user} of the settings",
            settings.url,
            remedy="With Kerberos, log in as that user (kinit)"
            if kerberos
            else f"{_USER} has another one: change that",
        )
    os.environ[_USER] = settings.user


def check(settings: HdfsSettings) -> None:
    """Refuses what hdfs-native would pass over, though it is about security.

    Raises:
        UnsupportedSettingError: it names the setting.
    """
    for key, value in settings.conf:
        if key in REFUSED and value not in REFUSED[key]:
            raise UnsupportedSettingError(
                f"hdfs-native cannot honour {key}",
                settings.url,
                remedy="Remove the setting for this work, or use libhdfs (docs/hdfs.md)",
            )
    conf = dict(settings.conf)
    for key in PROTECTIONS:
        if is_demanded(conf, key) and not settings.servers_protect:
            raise UnsupportedSettingError(
                f"hdfs-native takes the strongest protection that a server offers, and cannot insist on {key}",
                settings.url,
                remedy=f"Use libhdfs, or give {key}=authentication,integrity,privacy for this work "
                "if you know that the servers take nothing weaker",
            )


def is_demanded(conf: Mapping[str, str], key: str) -> bool:
    """Whether Hadoop's client would refuse servers that do not protect connections."""
    asked = [each.strip().lower() for each in conf.get(key, "").split(",") if each.strip()]
    return _is_kerberized(conf) and bool(asked) and "authentication" not in asked


def _is_kerberized(conf: Mapping[str, str]) -> bool:
    return conf.get("hadoop.security.authentication", "simple").lower() != "simple"


def client_conf(conf: Mapping[str, str]) -> dict[str, str]:
    """The configuration of hdfs-native."""
    known = {key: value for key, value in conf.items() if is_native_key(key)}
    for key, (hadoop, ours) in _DEFAULTS.items():
        if known.get(key, hadoop) == hadoop:
            known[key] = ours
    return known


def file_options(conf: Mapping[str, str]) -> tuple[int | None, int | None, int]:
    """Replication and block size of new files (None: what the NameNode says), and their permission.

    Raises:
        UnsupportedSettingError: a value cannot be understood.
    """
    replication = conf.get("dfs.replication")
    block_size = conf.get("dfs.blocksize")
    return (
        None if replication is None else _number("dfs.replication", replication, 10, range(1, 1 << 15)),
        None if block_size is None else _size("dfs.blocksize", block_size),
        0o666 & ~_number(_UMASK, conf.get(_UMASK, _DEFAULT_UMASK), 8, range(0o2000)),
    )


def _number(key: str, text: str, base: int, allowed: range) -> int:
    try:
        number = int(text, base)
    except ValueError:
        number = -1
    if number not in allowed:
        raise _not_understood(key, "an octal number such as 022" if base == 8 else f"a number below {allowed.stop}")
    return number


def _size(key: str, text: str) -> int:
    match = _SIZE.fullmatch(text.strip())
    size = int(match[1]) << 10 * (" kmgtpe".index(match[2].lower() or " ")) if match else 0
    if not 0 < size < 1 << 63:
        raise _not_understood(key, "a number of bytes, with k, m or g behind it if need be")
    return size


def _not_understood(key: str, needed: str) -> UnsupportedSettingError:
    return UnsupportedSettingError(f"the value of {key} is not understood", remedy=f"Give {needed}")
