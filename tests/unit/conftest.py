"""What make check leaves out."""

from __future__ import annotations

import re

import pytest

from tests.support.truth import DATA

_RELEASE = re.compile(r"\[.*?(spark-\d+\.\d+\.\d+)")
_NEWEST = max((path.name for path in DATA.glob("spark-*")), key=lambda name: [int(n) for n in name[6:].split(".")])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """There are thousands of tests over checkpoints of many releases: those of the newest stand for all."""
    for item in items:
        release = _RELEASE.search(item.nodeid)
        if release is not None and release[1] != _NEWEST:
            item.add_marker("thorough")
