"""Takes URIs apart: which bucket or HDFS, and which path there. What is left has no credentials in it."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote, urlsplit

from hdfsstore.errors import StateStoreError, UnsupportedSettingError
from hdfsstore.fs.redaction import shown

S3_SCHEMES: Final = ("s3", "s3a", "s3n")
HDFS_SCHEME: Final = "hdfs"
# A URI's scheme has two letters or more: C:\checkpoint is a path.
_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(?://([^/?]*))?(.*)", re.DOTALL)


def scheme_of(text: str) -> str | None:
    """The scheme of a URI in small letters; None: this is a path."""
    found = _URI.match(text)
    return found[1].lower() if found else None


def s3_place(uri: str) -> tuple[str, str]:
    """The bucket of a URI, and the URI as `s3://bucket/key`. The key has its letters as they are: % too."""
    _, bucket, key = _parts(uri)
    if "@" in bucket or ":" in bucket or "?" in key:
        raise UnsupportedSettingError(
            "the URI of a bucket has credentials or other settings in it",
            shown(uri),
            remedy="Give them as storage_options, --option-file or settings of Hadoop: a URI is stored and logged",
        )
    if not bucket:
        raise StateStoreError("the URI names no bucket", uri, remedy="Write s3://bucket/folder")
    return bucket, f"s3://{bucket}{key.rstrip('/')}"


def hdfs_place(uri: str, default_fs: str) -> tuple[str, str | None, str]:
    """The authority of a URI and its user, and the URI without the user.

    Args:
        default_fs: fs.defaultFS, which completes `hdfs:///path`.
    """
    _, netloc, path = _parts(uri)
    user, _, authority = netloc.rpartition("@")
    if "?" in path or ":" in user:
        raise UnsupportedSettingError(
            "the URI has a password or other settings in it",
            shown(uri),
            remedy="Give them as storage_options, --option-file or settings of Hadoop",
        )
    if not authority:
        default = urlsplit(default_fs)
        authority = default.netloc.rpartition("@")[2] if default.scheme == HDFS_SCHEME else ""
    if not authority:
        raise StateStoreError(
            "the URI names no NameNode, and fs.defaultFS is not that of an HDFS",
            uri,
            remedy="Write hdfs://host:port/folder, or let HADOOP_CONF_DIR name the folder of core-site.xml",
        )
    return authority, unquote(user) or None, f"hdfs://{authority}{path.rstrip('/') or '/'}"


def _parts(uri: str) -> tuple[str, str, str]:
    found = _URI.fullmatch(uri)
    assert found is not None
    return found[1], found[2] or "", found[3]
