"""Which changelogs and zips are read for (version, id): the three examples of SPARK-49374's design.

Every file holds one row, named after the file, so a state says which files it was made of.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from hdfsstore.errors import BatchNotAvailableError, MissingFileError
from tests.support.changelogs import PUT
from tests.support.rocksdb_partition import loaded, reader, write_changelog, write_zip

IDS = {20: "d8e2ca47", 21: "f4d05ac9", 22: "4489578d", 23: "689aa6bd", 24: "32e3cc2a"}
CHAIN = {"20_d8e2ca47.zip", "21_f4d05ac9.changelog", "22_4489578d.changelog", "23_689aa6bd.changelog"}


def changelog(folder: Path, version: int, first: int = 20, ids: dict[int, str] = IDS) -> None:
    """A changelog whose lineage begins with the first version."""
    name = f"{version}_{ids[version]}.changelog".encode()
    write_changelog(folder, version, [(PUT, name, b"")], ids=ids, first=first)


def zipped(folder: Path, version: int, ids: dict[int, str] = IDS) -> None:
    write_zip(folder, version, {f"{version}_{ids[version]}.zip".encode(): b""}, ids)


def read_of(folder: Path, version: int, ids: dict[int, str] = IDS) -> set[str]:
    """Names of the files that the version was made of."""
    return {key.decode() for key in loaded(reader(folder, ids), version)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The files of example 2."""
    changelog(tmp_path, 20, 19, {19: "00000019", **IDS})
    zipped(tmp_path, 20)
    changelog(tmp_path, 21, ids={**IDS, 21: "ef6618c2"})
    for version in (21, 22, 23):
        changelog(tmp_path, version)
    return tmp_path


def test_example_1_the_id_has_a_zip(folder: Path) -> None:
    zipped(folder, 23)
    assert read_of(folder, 23) == {"23_689aa6bd.zip"}


def test_example_2_the_id_has_only_a_changelog(folder: Path) -> None:
    assert read_of(folder, 23) == CHAIN
    assert read_of(folder, 21, {**IDS, 21: "ef6618c2"}) == {"20_d8e2ca47.zip", "21_ef6618c2.changelog"}
    other = {**IDS, 23: "8205c96f"}
    changelog(folder, 23, ids=other)
    zipped(folder, 23, other)
    assert read_of(folder, 23) == CHAIN
    assert read_of(folder, 23, other) == {"23_8205c96f.zip"}


@pytest.mark.parametrize("with_other", [False, True])
def test_example_3_the_presumed_zip_is_missing(folder: Path, with_other: bool) -> None:
    if with_other:
        zipped(folder, 23, {**IDS, 23: "8205c96f"})
    changelog(folder, 24, 23)
    assert read_of(folder, 24) == CHAIN | {"24_32e3cc2a.changelog"}
    zipped(folder, 23)  # its upload was late
    assert read_of(folder, 24) == {"23_689aa6bd.zip", "24_32e3cc2a.changelog"}


@pytest.mark.parametrize("kept", ["zip", "changelog"])
def test_files_of_another_id_take_the_place_of_none(folder: Path, kept: str) -> None:
    changelog(folder, 24, 23)
    for path in folder.glob("2[0-3]_*"):
        path.unlink()
    if kept == "zip":
        zipped(folder, 23, {**IDS, 23: "8205c96f"})
    else:
        changelog(folder, 23, ids={**IDS, 23: "8205c96f"})
    with pytest.raises((MissingFileError, BatchNotAvailableError)) as caught:
        read_of(folder, 24)
    assert caught.value.path is not None
    assert caught.value.path.startswith(str(folder))
