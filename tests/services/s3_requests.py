"""Sorts the requests of a query on s3a that a FaultProxy has written down: who made them, and what for."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from urllib.parse import unquote

# hdfsstore uses botocore, and Spark's s3a uses the AWS SDK for Java.
_OURS = "botocore"
_LOG = re.compile(r"/(metadata|offsets|commits|sources)\b")


def by_kind(requests: Iterable[tuple[tuple[str, str], str]]) -> dict[str, Counter[str]]:
    """The number of requests of each kind.

    Args:
        requests: those of FaultProxy.take_with_agents.

    Returns:
        "ours", "Spark's log" and "Spark's state" (and all else that Spark asks for), each by the method of HTTP and
        what the request is for.
    """
    found: dict[str, Counter[str]] = {"ours": Counter(), "Spark's log": Counter(), "Spark's state": Counter()}
    for (method, target), agent in requests:
        path, _, query = unquote(target).partition("?")
        action = "LIST" if method == "GET" and ("list-type" in query or "uploads" in query) else method
        if method == "POST" and query.startswith("delete"):
            action = "DELETE many"
        if _OURS in agent.lower():
            found["ours"][f"{action} {_kind(path + query)}".rstrip()] += 1
        elif "state" in re.split(r"[/=&]", f"{path}/{query}"):
            found["Spark's state"][action] += 1
        else:
            found["Spark's log"][action] += 1
    return found


def _kind(target: str) -> str:
    if "/state/" in target:
        return "snapshot" if target.endswith(".snapshot") else "delta" if target.endswith(".delta") else "state"
    log = _LOG.search(target)
    return log[1] if log else ""
