"""The `storage_options` of a location: what a user says about its storage in Python or in an option file.

docs/storage.md has the names. They are those that users know: Hadoop's, and those of AWS's environment variables.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from hdfsstore.errors import UnsupportedSettingError
from hdfsstore.fs.hadoop_conf import DEFAULT_FS
from hdfsstore.fs.hadoop_values import seconds, senseless
from hdfsstore.fs.hdfs.settings import CLIENT_NAMES
from hdfsstore.fs.hdfs_conf import is_for_clients
from hdfsstore.fs.s3_keys import BUCKET_PREFIX, PREFIX, SECRETS, is_known
from hdfsstore.fs.secret import Secret

StorageOptions: TypeAlias = Mapping[str, "str | int | float | bool | Secret"]

# AWS's names, in any case, and what they are for s3a.
_AWS = {
    "AWS_ACCESS_KEY_ID": "access.key",
    "AWS_SECRET_ACCESS_KEY": "secret.key",
    "AWS_SESSION_TOKEN": "session.token",
    "AWS_REGION": "endpoint.region",
    "AWS_DEFAULT_REGION": "endpoint.region",
    "AWS_ENDPOINT_URL": "endpoint",
    "AWS_ENDPOINT_URL_S3": "endpoint",
    "AWS_PROFILE": "auth.profile.name",
}
_AWS_CA_BUNDLE = "AWS_CA_BUNDLE"
_CLIENT, _TIMEOUT, _USER = "client", "timeout", "user"
_HADOOP = (DEFAULT_FS, "fs.hdfs.impl")
# A cluster's settings for its clients have them too.
_OF_NAMENODES = "dfs.namenode."
NAMES: Final = (*sorted(_AWS), _AWS_CA_BUNDLE, _CLIENT, _TIMEOUT, _USER)


@dataclass(frozen=True, slots=True)
class Options:
    """Storage options, by what they are for. A repr shows no values.

    Attributes:
        hadoop: properties under Hadoop's names.
        timeout_s: seconds without progress after which a call fails; None: not given.
        client: the client of HDFS; None: not given.
        user: the user that HDFS without Kerberos sees; None: not given.
        ca_bundle: the path of a file of certificates for S3; None: not given.
    """

    hadoop: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout_s: float | None = None
    client: str | None = None
    user: str | None = None
    ca_bundle: str | None = None


def parse_options(given: StorageOptions | None) -> Options:
    """Checks the names of storage options, and sorts them.

    Raises:
        UnsupportedSettingError: there is no option of a name.
        StateStoreError: a value makes no sense.
    """
    hadoop: dict[str, str] = {}
    others: dict[str, Any] = {}
    for name, value in (given or {}).items():
        text = _text(name, value)
        if name.upper() in _AWS:
            hadoop[PREFIX + _AWS[name.upper()]] = text
        elif name.upper() == _AWS_CA_BUNDLE:
            others["ca_bundle"] = text
        elif name == _TIMEOUT:
            others["timeout_s"] = parse_timeout(text)
        elif name == _CLIENT:
            if text not in CLIENT_NAMES:
                raise senseless(name, f"it is one of {', '.join(CLIENT_NAMES)}")
            others["client"] = text
        elif name == _USER:
            others["user"] = text
        elif _is_hadoops(name):
            hadoop[name] = text
        else:
            raise _unknown(name)
    return Options(hadoop, **others)


def has_secrets(given: StorageOptions) -> bool:
    """Whether one of the options is a key, a token or a password."""
    return any(
        name.upper() in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
        or (name.startswith(PREFIX) and name.endswith(SECRETS))
        for name in given
    )


def _text(name: str, value: object) -> str:
    match value:
        case Secret():
            return value.reveal().strip()
        case bool():
            return str(value).lower()
        case str() | int() | float():
            return str(value).strip()
    raise senseless(name, f"a text, a number, a boolean or a Secret is needed, not {type(value).__name__}")


def parse_timeout(text: str) -> float:
    """Seconds of a number, or of a string such as `30s` or `2m`. Raises StateStoreError: it is none."""
    try:
        number = float(text)
    except ValueError:
        number = seconds({_TIMEOUT: text}, _TIMEOUT, "s") or 0
    if not 0 < number < float("inf"):
        raise senseless(_TIMEOUT, "more than 0 seconds are needed")
    return number


def _is_hadoops(name: str) -> bool:
    if name.startswith(BUCKET_PREFIX) and not is_known(name[len(PREFIX) :]):
        rest = name[len(BUCKET_PREFIX) :]
        return any(is_known(rest[at + 1 :].removeprefix(PREFIX)) for at, letter in enumerate(rest) if letter == ".")
    return (
        name in _HADOOP
        or name.startswith(_OF_NAMENODES)
        or (name.startswith(PREFIX) and is_known(name[len(PREFIX) :]))
        or is_for_clients(name)
    )


def _unknown(name: str) -> UnsupportedSettingError:
    near = difflib.get_close_matches(name, NAMES, 1)
    meant = f"{near[0]!r} is the nearest. " if near else ""
    return UnsupportedSettingError(
        f"there is no storage option {name!r}",
        remedy=f"{meant}There are {', '.join(NAMES)}, and Hadoop's settings {PREFIX}*, dfs.* and {DEFAULT_FS}",
    )
