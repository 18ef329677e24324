"""What make check leaves out."""

from __future__ import annotations

import re

import pytest

from tests.support.truth import NEWEST

_RELEASE = re.compile(r"\[.*?(spark-\d+\.\d+\.\d+)")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """There are thousands of tests over checkpoints of many releases: those of the newest stand for all."""
    for item in items:
        release = _RELEASE.search(item.nodeid)
        if release is not None and release[1] != NEWEST:
            item.add_marker("thorough")
