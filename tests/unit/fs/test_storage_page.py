"""docs/storage.md names the options and settings that the code has."""

from __future__ import annotations

import re
from pathlib import Path

from hdfsstore.fs.s3_keys import HONOURED, NOT_HONOURED, REFUSED, RENAMED, WITHOUT_MEANING
from hdfsstore.fs.storage_options import NAMES

PAGE = (Path(__file__).parents[3] / "docs" / "storage.md").read_text("utf-8")


def in_table(heading: str) -> set[str]:
    """The names in the first column of the table whose first heading begins so."""
    rows = PAGE.split(f"| {heading}")[1].split("\n\n")[0].split("\n")[2:]
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row.split("|")[1])}


def in_paragraph_after(text: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", PAGE.split(text)[1].split("\n\n")[1]))


def test_the_page_names_every_setting_of_s3a_by_what_becomes_of_it() -> None:
    assert in_table("honoured |") - set(RENAMED) == HONOURED
    assert in_table("refused:") == set(REFUSED)
    assert in_paragraph_after("These change nothing here") == WITHOUT_MEANING
    warned = PAGE.split("These are not honoured")[1].split(":")[1].split(". Any")[0]
    assert set(re.findall(r"`([^`]+)`", warned)) == set(NOT_HONOURED)


def test_the_page_names_every_option() -> None:
    options = {name for name in in_table("option | meaning |") if not re.match(r"fs\.|dfs\.", name)}
    assert {name.upper() if name.startswith("aws_") else name for name in options} == set(NAMES)
