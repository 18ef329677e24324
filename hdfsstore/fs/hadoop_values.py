"""Parses values of Hadoop's configuration as Configuration.java does."""

from __future__ import annotations

import re
from collections.abc import Mapping

from hdfsstore.errors import StateStoreError

_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(\d+)\s*(ns|us|ms|s|m|h|d)?")


def boolean(conf: Mapping[str, str], name: str, default: bool) -> bool:
    """Hadoop takes the default for anything but true and false; here such a value is an error."""
    value = conf.get(name, "").lower()
    if not value:
        return default
    if value not in ("true", "false"):
        raise senseless(name, "true or false is needed")
    return value == "true"


def seconds(conf: Mapping[str, str], name: str, unit: str) -> float | None:
    """A duration such as `30s`, `500ms` or `5m`; a number alone is in the unit. None: it is not set."""
    value = conf.get(name, "")
    if not value:
        return None
    found = _DURATION.fullmatch(value.lower())
    if found is None:
        raise senseless(name, "a time such as 30s is needed")
    return int(found[1]) * _SECONDS[found[2] or unit]


def names(conf: Mapping[str, str], name: str) -> list[str]:
    """The parts of a list with commas, without blanks."""
    return [part for part in (part.strip() for part in conf.get(name, "").split(",")) if part]


def pairs(conf: Mapping[str, str], name: str) -> dict[str, str]:
    """A list such as `a=b,c=d`."""
    found = {}
    for part in names(conf, name):
        key, equals, value = part.partition("=")
        if not equals or not key.strip() or not value.strip():
            raise senseless(name, "a list such as a=b,c=d is needed")
        found[key.strip()] = value.strip()
    return found


def senseless(name: str, why: str) -> StateStoreError:
    """The error of a value that makes no sense. It does not show the value, which may be a secret in a wrong place."""
    return StateStoreError(f"the value of {name} makes no sense: {why}", remedy="Put the setting right")
