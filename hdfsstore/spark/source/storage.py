"""How the planner and the tasks of a source, Python processes without a JVM, reach what the session reaches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hdfsstore.fs.hadoop_conf import DEFAULT_FS, HadoopConf, read_hadoop_conf
from hdfsstore.fs.location import StorageLocation, find_settings
from hdfsstore.fs.uris import HDFS_SCHEME, S3_SCHEMES, scheme_of


@dataclass(frozen=True, slots=True)
class SourceStorage:
    """The settings of a session's filesystems. A repr shows no values.

    Attributes:
        conf: Hadoop's properties that somebody has set; None: the site files in HADOOP_CONF_DIR have them.
        user: that HDFS without Kerberos sees; None: the user of the process.
        known: folders of storages whose settings and keys the JVM has told.
    """

    conf: HadoopConf | None = None
    user: str | None = None
    known: Sequence[StorageLocation] = ()

    def location(self, path: str) -> StorageLocation:
        """A path as Spark's readers understand it: without a scheme it is on the default filesystem.

        Raises:
            UnsupportedSettingError: a setting cannot be honoured.
            StateStoreError: the value of a setting makes no sense, or there are no keys.
        """
        conf = read_hadoop_conf() if self.conf is None else self.conf
        default = conf.get(DEFAULT_FS, "").rstrip("/")
        if scheme_of(path) is None and path.startswith("/") and (scheme_of(default) or "file") != "file":
            path = default + path
        for place in self.known:
            if _storage(path) == _storage(place.uri):
                return StorageLocation(f"{_root(place.uri)}/{_below_root(path)}", place.settings)
        is_hdfs = scheme_of(path) == HDFS_SCHEME
        return find_settings(path, {"user": self.user} if is_hdfs and self.user else None, conf)


def _storage(uri: str) -> tuple[str, str]:
    """Scheme and authority; s3 and s3a are one."""
    scheme = scheme_of(uri) or ""
    authority = uri.partition("://")[2].partition("/")[0]
    return ("s3" if scheme in S3_SCHEMES else scheme), authority.rpartition("@")[2]


def _root(uri: str) -> str:
    scheme, _, rest = uri.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}"


def _below_root(uri: str) -> str:
    return uri.partition("://")[2].partition("/")[2]
