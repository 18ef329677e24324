"""Resolves a location, which is a URI, a local path or a pair, to a FileManager and the path on it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
from pyarrow.fs import FileSystem, SubTreeFileSystem

from hdfsstore.errors import StateStoreError, UnsupportedSettingError
from hdfsstore.fs import clients
from hdfsstore.fs.arrow_files import ArrowFileManager, kind_of
from hdfsstore.fs.arrow_forks import jvm_is_of_parent
from hdfsstore.fs.file_manager import FileManager
from hdfsstore.fs.fsspec_uris import fsspec_place
from hdfsstore.fs.hadoop_conf import DEFAULT_FS, HadoopConf, read_hadoop_conf
from hdfsstore.fs.hdfs.settings import HdfsSettings
from hdfsstore.fs.hdfs_conf import hdfs_settings
from hdfsstore.fs.local_files import LocalFileManager
from hdfsstore.fs.other_conf import check_others
from hdfsstore.fs.redaction import scrubbed, shown
from hdfsstore.fs.s3.settings import S3Settings
from hdfsstore.fs.s3_conf import s3_settings
from hdfsstore.fs.storage_options import StorageOptions, parse_options
from hdfsstore.fs.uris import HDFS_SCHEME, S3_SCHEMES, hdfs_place, s3_place, scheme_of

_LOCAL = {"local", "file"}
# pyarrow opens it in a JVM.
_OF_JAVA = "viewfs"
_GOOGLE = {"gs", "gcs"}
# It waits longer and longer between its tries, and the last pause counts on top: two minutes in all.
_GOOGLE_RETRY_S = 60
# What pyarrow says of a URI whose scheme it does not know.
_UNKNOWN_TO_ARROW = "Unrecognized filesystem type"


@dataclass(frozen=True, slots=True)
class StorageLocation:
    """A location with all that it takes to reach it, as the driver sends it to tasks.

    Attributes:
        uri: a URI or a local path. For s3: and hdfs: it is complete, and has no credential in it.
        settings: of the storage; None: its scheme has none.
    """

    uri: str
    settings: S3Settings | HdfsSettings | None = None

    def folder(self, relative: str) -> StorageLocation:
        """A folder below this one."""
        return StorageLocation(f"{self.uri}/{relative}", self.settings)


Location: TypeAlias = str | os.PathLike[str] | tuple[FileSystem | FileManager, str] | StorageLocation


def resolve(location: Location, storage_options: StorageOptions | None = None) -> tuple[FileManager, str]:
    """Returns what has the files of a location, and the path on it.

    Args:
        location: a URI (of file, hdfs, s3 or s3a, or one that pyarrow.fs.FileSystem.from_uri or fsspec opens), a local
            path, or (pyarrow.fs.FileSystem, path).
        storage_options: how the storage of a URI is reached (docs/storage.md). What they leave out, the files in
            HADOOP_CONF_DIR and AWS's environment variables say.

    Raises:
        UnsupportedSettingError: there is no such option, or a setting cannot be honoured.
        StateStoreError: the location cannot be opened, or the value of a setting makes no sense.
    """
    if isinstance(location, (tuple, StorageLocation)):
        if storage_options:
            raise ValueError("storage_options are for a URI or a path: a filesystem has settings of its own")
        return _of_pair(*location) if isinstance(location, tuple) else _open(location)
    return _open(find_settings(location, storage_options))


def find_settings(
    location: str | os.PathLike[str], storage_options: StorageOptions | None, hadoop_conf: HadoopConf | None = None
) -> StorageLocation:
    """A URI or a local path, with the settings that `resolve` finds. It connects to nothing.

    Args:
        hadoop_conf: takes the place of the files in HADOOP_CONF_DIR.
    """
    options = parse_options(storage_options)
    text = os.fspath(location)
    try:
        text.encode()
    except UnicodeEncodeError:  # Arrow takes UTF-8 alone
        raise StateStoreError(
            "this path is not UTF-8, and cannot be opened",
            ascii(text),
            remedy="Rename the folder, or give a symbolic link to it",
        ) from None
    scheme = scheme_of(text) if isinstance(location, str) else None
    if scheme in S3_SCHEMES:
        bucket, uri = s3_place(text)
        s3 = s3_settings(
            bucket,
            read_hadoop_conf() if hadoop_conf is None else hadoop_conf,
            options.hadoop,
            ca_bundle=options.ca_bundle,
            timeout_s=options.timeout_s,
        )
        return StorageLocation(uri, s3)
    if scheme == HDFS_SCHEME:
        conf = HadoopConf(read_hadoop_conf() if hadoop_conf is None else hadoop_conf, options.hadoop)
        authority, user, uri = hdfs_place(text, conf.get(DEFAULT_FS, ""))
        hdfs = hdfs_settings(
            authority, conf, client=options.client, user=options.user or user, timeout_s=options.timeout_s
        )
        return StorageLocation(uri, hdfs)
    if scheme is None:
        return StorageLocation(Path(text).absolute().as_posix())
    if scheme not in _LOCAL:
        if storage_options:
            raise UnsupportedSettingError(
                f"there are no storage options for {scheme}:", remedy="Give a pair (pyarrow.fs.FileSystem, path)"
            )
        check_others(scheme, read_hadoop_conf() if hadoop_conf is None else hadoop_conf)
    return StorageLocation(text)


def renew(location: StorageLocation) -> None:
    """Gives the keys of a location to the FileManager that this process has for it, and so to all who use that."""
    settings = location.settings
    if isinstance(settings, S3Settings):
        from hdfsstore.fs.s3.s3_files import S3FileManager

        def give(files: FileManager) -> None:
            assert isinstance(files, S3FileManager)
            files.renew(settings)

        clients.renew((settings, _bucket_of(location.uri)), give)


def place_of(fs: FileManager, path: str) -> str:
    """A path and the storage that it is on, equal for the same place, and without credentials: for files and logs."""
    return f"{fs.identity}{'' if path.startswith('/') else '/'}{path}"


def shown_location(location: Location) -> str:
    """The location as messages may show it."""
    if isinstance(location, StorageLocation):
        return shown(location.uri)
    if not isinstance(location, tuple):
        return shown(os.fspath(location))
    fs, path = location
    return place_of(fs, path) if isinstance(fs, FileManager) else f"{kind_of(fs)}:{path}"


def _open(location: StorageLocation) -> tuple[FileManager, str]:
    uri, settings = location.uri, location.settings
    if isinstance(settings, S3Settings):
        bucket = _bucket_of(uri)
        return clients.shared((settings, bucket), partial(_bucket, settings, bucket)), uri.partition("://")[2]
    if isinstance(settings, HdfsSettings):
        return clients.shared(settings, partial(_hdfs, settings)), "/" + uri.partition("://")[2].partition("/")[2]
    if scheme_of(uri) is None:
        return LocalFileManager(), _trimmed(uri)
    if scheme_of(uri) == _OF_JAVA and jvm_is_of_parent():
        raise StateStoreError(
            "this process was forked from one that has used Hadoop's own client, whose JVM does not survive that",
            shown(uri),
            remedy="Use a URI of hdfs, with hdfs-native (`client` of the storage options), or HDFS in the child alone",
        )
    try:
        return _of_pair(*FileSystem.from_uri(_with_deadline(uri)))
    except (OSError, ValueError, pa.ArrowException) as error:
        why = scrubbed(str(error), uri)
    # Not in the handler: the error there has the whole URI in its text.
    place = fsspec_place(uri, scheme_of(uri) or "") if _UNKNOWN_TO_ARROW in why else None
    if place is not None:
        return clients.shared(place.key, lambda: ArrowFileManager(place.connect())), _trimmed(place.path)
    why = why.partition("\n")[0]  # the rest has every place where a library was looked for
    if "libjvm" in why or "libhdfs" in why:
        raise StateStoreError(
            f"this scheme needs Hadoop's own client: {why}",
            shown(uri),
            remedy="Set HADOOP_HOME or ARROW_LIBHDFS_DIR, JAVA_HOME and CLASSPATH, or give a URI of hdfs, which "
            "hdfs-native opens too (docs/hdfs.md)",
        )
    raise StateStoreError(
        f"pyarrow cannot open this URI: {why}",
        shown(uri),
        remedy="Give a URI of file, hdfs, s3 or s3a, one that pyarrow.fs.FileSystem.from_uri knows (gs, abfs), "
        "one that an installed fsspec knows, or a pair (pyarrow.fs.FileSystem, path)",
    )


def _with_deadline(uri: str) -> str:
    """A URI whose client gives up in time: Google's tries again for 15 minutes unless it is told otherwise."""
    if scheme_of(uri) not in _GOOGLE or "retry_limit_seconds=" in uri:
        return uri
    return f"{uri}{'&' if '?' in uri else '?'}retry_limit_seconds={_GOOGLE_RETRY_S}"


def _bucket_of(uri: str) -> str:
    return uri.partition("://")[2].partition("/")[0]


def _bucket(settings: S3Settings, bucket: str) -> FileManager:
    from hdfsstore.fs.s3.open import open_bucket  # imports botocore

    return open_bucket(settings, bucket)


def _hdfs(settings: HdfsSettings) -> FileManager:
    from hdfsstore.fs.hdfs.hdfs_files import HdfsFileManager  # imports hdfs-native

    return HdfsFileManager(settings)


def _of_pair(fs: FileSystem | FileManager, path: str) -> tuple[FileManager, str]:
    path = os.fspath(path)
    if isinstance(fs, FileSystem):
        while isinstance(fs, SubTreeFileSystem):
            fs, path = fs.base_fs, fs.base_path.rstrip("/") + "/" + path.lstrip("/")
        return LocalFileManager() if kind_of(fs) in _LOCAL else ArrowFileManager(fs), _trimmed(path)
    if isinstance(fs, FileManager):
        return fs, _trimmed(path)
    raise TypeError(f"a pyarrow.fs.FileSystem is needed, not {type(fs).__name__}")


def _trimmed(path: str) -> str:
    return path.rstrip("/") or path[:1]
