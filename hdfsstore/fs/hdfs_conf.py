"""Makes HdfsSettings of what Hadoop and the user say about an HDFS. docs/hdfs.md has the rules."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from hdfsstore.errors import UnsupportedSettingError
from hdfsstore.fs.hdfs.native_conf import REFUSED
from hdfsstore.fs.hdfs.settings import HdfsSettings
from hdfsstore.fs.not_honoured import warn_of

_IMPL: Final = "fs.hdfs.impl"
_OWN_IMPL = "org.apache.hadoop.hdfs.DistributedFileSystem"
# fs.hdfs.* that have no meaning outside Hadoop's own client.
_WITHOUT_MEANING = ("fs.hdfs.impl.disable.cache",)
# What a client may look at. A name that ends with a point stands for all that begin with it.
FOR_CLIENTS: Final = (
    "dfs.blocksize",
    "dfs.bytes-per-checksum",
    "dfs.checksum.type",
    "dfs.client.",
    "dfs.data.transfer.",
    "dfs.domain.socket.path",
    "dfs.encrypt.data.transfer",
    "dfs.encrypt.data.transfer.",
    "dfs.ha.namenodes.",
    "dfs.internal.nameservices",
    "dfs.namenode.kerberos.principal",
    "dfs.namenode.kerberos.principal.",
    "dfs.namenode.rpc-address",
    "dfs.namenode.rpc-address.",
    "dfs.nameservices",
    "dfs.replication",
    "dfs.trustedchannel.resolver.class",
    "fs.permissions.umask-mode",
    "hadoop.rpc.",
    "hadoop.security.authentication",
    "hadoop.security.key.provider.path",
    "hadoop.security.sasl.",
    "hadoop.security.saslproperties.resolver.class",
    "hadoop.socks.server",
    "ipc.client.",
)
_SECRET = re.compile(r"password|secret", re.IGNORECASE)


def hdfs_settings(authority: str, conf: Mapping[str, str], **fields: Any) -> HdfsSettings:
    """The settings of an HDFS.

    Args:
        authority: a nameservice, or host:port of the NameNode.
        conf: Hadoop's configuration, with what the user has set in it. Only properties that somebody has set.
        fields: of HdfsSettings.

    Raises:
        UnsupportedSettingError: Hadoop is told to use another client for hdfs:, which may store data otherwise, or to
            secure connections as only a JVM can.
    """
    own = conf.get(_IMPL, "")
    if own and own != _OWN_IMPL:
        raise UnsupportedSettingError(
            f"{_IMPL} is {own}, a client of which nothing is known here", remedy=f"Remove {_IMPL} for this work"
        )
    for name, harmless in REFUSED.items():
        if fields.get("client") != "libhdfs" and conf.get(name, "") not in ("", *harmless):
            raise UnsupportedSettingError(
                f"{name} is set, and hdfs-native cannot honour it",
                remedy="Choose libhdfs: the storage option client, or hdfsstore.fs.client in Spark",
            )
    for name in conf:
        if name.startswith("fs.hdfs.") and name != _IMPL and name not in _WITHOUT_MEANING:
            warn_of(name, "is not known, and is not looked at")
    chosen = {name: conf[name] for name in conf if is_for_clients(name) and not _SECRET.search(name)}
    return HdfsSettings.of(
        authority,
        {name: value for name, value in chosen.items() if value},
        **{name: value for name, value in fields.items() if value is not None},
    )


def is_for_clients(name: str) -> bool:
    return name in FOR_CLIENTS or any(name.startswith(prefix) for prefix in FOR_CLIENTS if prefix.endswith("."))
