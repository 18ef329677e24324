"""How a session of Spark reaches the storage of a checkpoint: its Hadoop configuration, as settings for tasks.

Hadoop's own code says what a property is worth, and s3a's which keys it uses: its providers, the stores of keys that
only a JVM can read (JCEKS), and assumed roles. Where each machine has a role of its own, no keys travel.

Hadoop keeps one filesystem of a bucket for all sessions of a JVM, with the credentials of the first one. A session with
others gets a filesystem of its own here, and its tasks get clients of their own.
"""

from __future__ import annotations

import hashlib
import json
import logging
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession

from hdfsstore.errors import StateStoreError
from hdfsstore.fs.hadoop_conf import CREDENTIAL_PROVIDER_PATH, DEFAULT_FS, HadoopConf
from hdfsstore.fs.hdfs.native_conf import PROTECTIONS, is_demanded
from hdfsstore.fs.hdfs_conf import hdfs_settings, is_for_clients
from hdfsstore.fs.location import StorageLocation, renew
from hdfsstore.fs.other_conf import check_others, prefix_of
from hdfsstore.fs.s3.settings import S3Settings
from hdfsstore.fs.s3_conf import CREDENTIALS, of_bucket, s3_settings, secret_names
from hdfsstore.fs.s3_credentials import credentials, is_own_of_each_machine
from hdfsstore.fs.s3_keys import HONOURED, PREFIX, PROVIDER_PATH
from hdfsstore.fs.secret import Secret
from hdfsstore.fs.uris import HDFS_SCHEME, S3_SCHEMES, hdfs_place, s3_place

# Properties with these names come from Hadoop's jars: nobody has set them.
_DEFAULTS = "-default.xml"
_S3_PREFIXES = tuple(f"fs.{scheme}." for scheme in S3_SCHEMES)
_GENERAL = (DEFAULT_FS, CREDENTIAL_PROVIDER_PATH)
_S3A = "org.apache.hadoop.fs.s3a.S3AFileSystem"
_PURPOSE = "hdfsstore"
# Without it nobody could try out keys on a digest of them.
_SALT = secrets.token_bytes(32)
_PROPERTIES = {
    "access_key": f"{PREFIX}access.key",
    "secret_key": f"{PREFIX}secret.key",
    "session_token": f"{PREFIX}session.token",
}
# What decides which credentials s3a has.
_OF_CREDENTIALS = (
    *CREDENTIALS,
    *(f"{PREFIX}{name}" for name in HONOURED if name.startswith("assumed.role.")),
    f"{PREFIX}{PROVIDER_PATH}",
    CREDENTIAL_PROVIDER_PATH,
)
# Those that not all sessions share, by JVM and scope.
_filesystems: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()
_filesystems_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class SessionStorage:
    """The storage of one checkpoint, as a session reaches it.

    Attributes:
        given: the location without keys of s3a.
        filesystem: the JVM's filesystem, which says the keys; None: no keys travel.
    """

    given: StorageLocation
    filesystem: Any = None

    @property
    def has_keys(self) -> bool:
        """Whether secrets travel to the tasks."""
        settings = self.given.settings
        return isinstance(settings, S3Settings) and (self.filesystem is not None or bool(settings.secrets()))

    def location(self) -> StorageLocation:
        """The location with the keys that are valid now, which this process uses too from now on.

        Raises:
            StateStoreError: s3a has no keys.
        """
        if self.filesystem is None or not isinstance(self.given.settings, S3Settings):
            return self.given
        now = StorageLocation(self.given.uri, replace(self.given.settings, **_keys(self.filesystem, self.given.uri)))
        renew(now)
        return now


def session_storage(
    spark: SparkSession, path: Any, hadoop_conf: Any, *, client: str | None, timeout_s: float | None
) -> SessionStorage:
    """The storage of a checkpoint.

    Args:
        path: the checkpoint's folder, as Hadoop's Path.
        hadoop_conf: the session's Hadoop configuration.
        client: of HDFS; None: the default.
        timeout_s: seconds without progress after which a call fails; None: the default.

    Raises:
        UnsupportedSettingError: a setting about security, or about where data lies, cannot be honoured.
        StateStoreError: the value of a setting makes no sense.
    """
    scheme = (path.toUri().getScheme() or "").lower()
    if scheme in S3_SCHEMES:  # before Hadoop has opened it: it takes keys from a URI
        s3_place(path.toString())
    filesystem = path.getFileSystem(hadoop_conf)
    qualified = filesystem.makeQualified(path)
    uri = qualified.toUri()
    scheme, text = uri.getScheme().lower(), qualified.toString()
    if scheme == "file":
        return SessionStorage(StorageLocation(uri.getPath()))
    if scheme in S3_SCHEMES:
        return _s3_storage(spark, filesystem, text, hadoop_conf, timeout_s)
    if scheme == HDFS_SCHEME:
        conf = _set_properties(spark, hadoop_conf, _is_for_hdfs)
        authority, user, plain = hdfs_place(text, "")
        user = user or _user(spark, conf)
        # Hadoop's client connects only to servers that protect connections as the settings ask. Spark writes its own
        # logs by it, so its word counts for the DataNodes too.
        demanded = any(is_demanded(conf, key) for key in PROTECTIONS)
        if demanded:
            filesystem.exists(path)
        settings = hdfs_settings(
            authority, conf, client=client, user=user, timeout_s=timeout_s, servers_protect=demanded
        )
        return SessionStorage(StorageLocation(plain, settings))
    prefix = prefix_of(scheme)
    check_others(scheme, _set_properties(spark, hadoop_conf, lambda name: name.startswith(prefix)))
    return SessionStorage(StorageLocation(uri.toString()))  # the others decode it


def session_conf(spark: SparkSession, hadoop_conf: Any) -> tuple[HadoopConf, str | None]:
    """The properties about filesystems that somebody has set, and the user that HDFS without Kerberos sees.

    Keys that only Hadoop's credential providers have are not among them.
    """
    conf = _set_properties(spark, hadoop_conf, lambda name: name in _GENERAL or _is_for_any(name))
    return HadoopConf(conf), _user(spark, conf)


def _is_for_any(name: str) -> bool:
    return name.startswith(_S3_PREFIXES) or _is_for_hdfs(name)


def _is_for_hdfs(name: str) -> bool:
    return is_for_clients(name) or name.startswith("fs.hdfs.")


def _user(spark: SparkSession, conf: Mapping[str, str]) -> str | None:
    """The user that tasks act as. With Kerberos a ticket or a token says it."""
    if conf.get("hadoop.security.authentication", "simple").lower() != "simple":
        return None
    jvm: Any = spark._jvm
    user: str = jvm.org.apache.hadoop.security.UserGroupInformation.getCurrentUser().getShortUserName()
    return user


def _set_properties(spark: SparkSession, hadoop_conf: Any, is_wanted: Callable[[str], bool]) -> dict[str, str]:
    """The properties of a configuration that somebody has set. One call tells their names, and where each was set."""
    jvm: Any = spark._jvm
    writer = jvm.java.io.StringWriter()
    jvm.org.apache.hadoop.conf.Configuration.dumpConfiguration(hadoop_conf, writer)  # it leaves out secrets
    names = [
        each["key"]
        for each in json.loads(writer.toString())["properties"]
        if is_wanted(each["key"]) and not each["resource"].endswith(_DEFAULTS)
    ]
    with _unlogged():  # some are keys
        return {name: value for name in names if (value := hadoop_conf.getTrimmed(name)) is not None}


def _s3_storage(
    spark: SparkSession, filesystem: Any, text: str, hadoop_conf: Any, timeout_s: float | None
) -> SessionStorage:
    bucket, uri = s3_place(text)
    conf = _set_properties(spark, hadoop_conf, lambda name: name.startswith(_S3_PREFIXES))
    conf |= _secrets(spark, hadoop_conf, conf, bucket)
    own = of_bucket(conf, bucket)
    scope = hashlib.blake2b(repr(sorted(own.items())).encode(), key=_SALT, digest_size=16).hexdigest()
    try:
        found: Mapping[str, Any] | None = credentials(own, {})
    except StateStoreError:
        found = None  # a class that only the JVM has
    is_local = found is not None and (not found or is_own_of_each_machine(found))
    if is_local or filesystem.getClass().getName() != _S3A:
        settings = s3_settings(bucket, conf, secrets_resolved=True, environment={}, timeout_s=timeout_s, scope=scope)
        return SessionStorage(StorageLocation(uri, settings))
    filesystem = _own_filesystem(spark, filesystem, hadoop_conf, bucket, scope)
    keys = {_PROPERTIES[name]: key.reveal() for name, key in _keys(filesystem, uri).items() if key is not None}
    settings = s3_settings(bucket, conf, keys, secrets_resolved=True, environment={}, timeout_s=timeout_s, scope=scope)
    return SessionStorage(StorageLocation(uri, settings), filesystem)


def _own_filesystem(spark: SparkSession, shared: Any, hadoop_conf: Any, bucket: str, scope: str) -> Any:
    """A filesystem with the credentials of this configuration: the one that all sessions share, if it has these."""
    jvm: Any = spark._jvm
    asked = jvm.org.apache.hadoop.fs.s3a.S3AUtils.propagateBucketOptions(hadoop_conf, bucket)
    with _unlogged():
        if all(shared.getConf().getTrimmed(name) == asked.getTrimmed(name) for name in _OF_CREDENTIALS):
            return shared
    with _filesystems_lock:
        known = _filesystems.setdefault(jvm, {})
        if scope not in known:
            known[scope] = jvm.org.apache.hadoop.fs.FileSystem.newInstance(shared.getUri(), hadoop_conf)
        return known[scope]


def _secrets(spark: SparkSession, hadoop_conf: Any, conf: Mapping[str, str], bucket: str) -> dict[str, str]:
    """The keys and passwords of a bucket. Hadoop asks its stores of keys first, and s3a's own stores before others."""
    jvm: Any = spark._jvm
    asked = jvm.org.apache.hadoop.conf.Configuration(hadoop_conf)
    own = of_bucket(conf, bucket).get(f"{PREFIX}{PROVIDER_PATH}")
    if own:
        general = asked.getTrimmed(CREDENTIAL_PROVIDER_PATH)
        asked.set(CREDENTIAL_PROVIDER_PATH, f"{own},{general}" if general else own)
    has_stores = bool(asked.getTrimmed(CREDENTIAL_PROVIDER_PATH))
    names = secret_names(bucket) if has_stores else [name for name in secret_names(bucket) if name in conf]
    found = {}
    for name in names:
        try:
            with _unlogged():
                password = asked.getPassword(name)
                value = None if password is None else str(jvm.java.lang.String(password)).strip()
        except Py4JJavaError as error:
            raise StateStoreError(
                f"Hadoop cannot look up {name}: {_said(error)}",
                remedy=f"Check the stores of keys that {CREDENTIAL_PROVIDER_PATH} names",
            ) from None
        if value is not None:
            found[name] = value
    return found


def _keys(filesystem: Any, uri: str) -> dict[str, Any]:
    """The keys that s3a uses now, as fields of S3Settings."""
    try:
        with _unlogged():
            access_key, secret_key, token = _resolved(filesystem)
    except Py4JJavaError as error:
        raise StateStoreError(
            f"s3a has no keys: {_said(error)}", uri, remedy=f"Check {PREFIX}aws.credentials.provider and what it needs"
        ) from None
    if not access_key or not secret_key:
        return {"access_key": None, "secret_key": None, "session_token": None}
    return {
        "access_key": Secret(access_key),
        "secret_key": Secret(secret_key),
        "session_token": Secret(token) if token else None,
    }


def _resolved(filesystem: Any) -> tuple[str | None, str | None, str | None]:
    """Key, secret and token, or None for each that there is not."""
    try:
        shared = filesystem.getS3AInternals().shareCredentials(_PURPOSE)
        found = shared.resolveCredentials()
        names = ["accessKeyId", "secretAccessKey", "sessionToken"]
    except Py4JJavaError:
        raise
    except Py4JError:  # Hadoop 3.3 (Spark 3.5) has AWS's first client for Java
        shared = filesystem.shareCredentials(_PURPOSE)
        found = shared.getCredentials()
        names = ["getAWSAccessKeyId", "getAWSSecretKey", "getSessionToken"]
    if "Session" not in found.getClass().getName():
        names.pop()  # there is no such method
    values = [getattr(found, name)() for name in names]
    shared.close()
    return values[0], values[1], values[2] if len(values) == 3 else None


@contextmanager
def _unlogged() -> Iterator[None]:
    """Keeps what this thread asks the JVM for out of py4j's log, which has every answer at DEBUG."""
    thread = threading.get_ident()

    def is_of_others(_: logging.LogRecord) -> bool:
        return threading.get_ident() != thread

    loggers = [logging.getLogger(name) for name in ("py4j.clientserver", "py4j.java_gateway")]
    for logger in loggers:
        logger.addFilter(is_of_others)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(is_of_others)


def _said(error: Py4JJavaError) -> str:
    """The first line of an exception of Java, without its stack."""
    return str(error.java_exception.toString()).partition("\n")[0]
