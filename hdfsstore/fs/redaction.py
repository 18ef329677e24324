"""Shows URIs without what may be a credential: the user and password, and the query."""

from __future__ import annotations

import re
from urllib.parse import unquote

HIDDEN = "***"

_URI = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+):(?P<slashes>/*)(?P<rest>[^?]*)(?P<query>\?.*)?", re.DOTALL)
_BUCKETS = {"s3", "s3a", "s3n", "gs", "gcs"}  # have no ports
# What is before the @ is a container there, as long as it has no password.
_CONTAINER_FIRST = {"abfs", "abfss", "wasb", "wasbs"}
_HOST = re.compile(r"([^:]*|\[[0-9a-fA-F:.]*\])(?P<port>:\d*)?")


def shown(uri: str) -> str:
    """The URI as messages may show it. A path is shown as it is."""
    return _split(uri)[0]


def scrubbed(text: str, uri: str) -> str:
    """A text about the URI, a library's error above all, without what `shown` leaves out."""
    visible, hidden = _split(uri)
    text = text.replace(uri, visible)
    for part in sorted(hidden, key=len, reverse=True):
        text = text.replace(part, HIDDEN)
    return text


def _split(uri: str) -> tuple[str, set[str]]:
    """The URI as it may be shown, and the parts that are hidden in it."""
    match = _URI.fullmatch(uri)
    if match is None:
        return uri, set()
    rest, hidden = match["rest"], set()
    authority, slash, path = rest.partition("/") if match["slashes"] == "//" else ("", "", rest)
    user, at, host = authority.rpartition("@")
    host_match = _HOST.fullmatch(authority)
    if not at and (host_match is None or (host_match["port"] and match["scheme"].lower() in _BUCKETS)):
        # A key with a slash in it: all up to the last @ belongs to it.
        user, at, rest = rest.rpartition("@")
        host, slash, path = rest.partition("/") if at else (HIDDEN, "", "")
        hidden.add(authority)
    if at and (":" in user or match["scheme"].lower() not in _CONTAINER_FIRST):
        hidden |= {user, *user.split(":")}
        user = HIDDEN
    query = (match["query"] or "").removeprefix("?")
    for name_and_value in query.split("&"):
        hidden.add(name_and_value.partition("=")[2])
    visible = f"{match['scheme']}:{match['slashes']}{user}{at}{host}{slash}{path}{f'?{HIDDEN}' * bool(query)}"
    hidden |= {unquote(part) for part in hidden}
    return visible, {part for part in hidden if part}
