"""What Hadoop says about storages of which we honour no setting: those that pyarrow or fsspec open by themselves.

Such a client has settings of its own. So a property that encrypts is refused by name, since data would lie unencrypted
without it, and any other one is warned of.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from hdfsstore.errors import UnsupportedSettingError
from hdfsstore.fs.not_honoured import warn_of
from hdfsstore.fs.uris import HDFS_SCHEME, S3_SCHEMES

_FAMILIES: Final = {"gcs": "gs", "abfs": "azure", "abfss": "azure", "wasb": "azure", "wasbs": "azure"}
_ENCRYPTS: Final = re.compile(r"encrypt|\bcse\b|\bkms", re.IGNORECASE)
_CLASS: Final = re.compile(r"impl(\.disable\.cache)?")
_ASKS_FOR_NOTHING: Final = ("", "false", "none")


def prefix_of(scheme: str) -> str:
    """What the names of a scheme's properties begin with; "" for schemes that others look after."""
    return "" if scheme in ("file", HDFS_SCHEME, *S3_SCHEMES) else f"fs.{_FAMILIES.get(scheme, scheme)}."


def check_others(scheme: str, conf: Mapping[str, str]) -> None:
    """Looks at the properties of a scheme that somebody has set.

    Raises:
        UnsupportedSettingError: one asks for encryption.
    """
    prefix = prefix_of(scheme)
    for name in conf:
        if not prefix or not name.startswith(prefix) or _CLASS.fullmatch(name[len(prefix) :]):
            continue
        if not _ENCRYPTS.search(name):
            warn_of(name, "is not looked at")
        elif conf[name].lower() not in _ASKS_FOR_NOTHING:
            raise UnsupportedSettingError(
                f"{name} is set, and cannot be honoured: data of {scheme}: would lie unencrypted",
                remedy="Keep the checkpoint on a storage whose settings count (docs/storage.md), or remove it for this "
                "work",
            )
