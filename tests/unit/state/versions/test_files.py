"""Which files make up a version."""

import pytest

from hdfsstore.errors import BatchNotAvailableError, MissingFileError
from hdfsstore.state.versions.files import Chain, StateFiles


def files(*names: str) -> StateFiles:
    return StateFiles.of("state/0/0", dict.fromkeys(names, 1))


def chained(snapshot: int | None, *deltas: int) -> Chain:
    return Chain(None if snapshot is None else (snapshot, None), tuple((version, None) for version in deltas))


def test_newest_snapshot_and_the_deltas_after_it() -> None:
    listing = files("1.delta", "2.delta", "2.snapshot", "3.delta", "4.delta", "4.snapshot", "5.delta")
    assert listing.chain(5) == chained(4, 5)
    assert listing.chain(4) == chained(4)
    assert listing.chain(3) == chained(2, 3)
    assert listing.chain(1) == chained(None, 1)
    assert listing.chain(5, below=4) == chained(2, 3, 4, 5)
    assert listing.chain(5, below=2) == chained(None, 1, 2, 3, 4, 5)


def test_version_0_is_empty_whatever_the_files() -> None:
    assert files().chain(0) == chained(None)


def test_names_that_are_not_state_files_are_left_alone() -> None:
    listing = files("1.delta", ".1.delta.crc", "1.delta.crc", ".2.delta.ab-cd.tmp", "x.delta", "3.delta.tmp", "4.zip")
    assert listing.deltas == {(1, None)}
    assert listing.snapshots == frozenset()


def test_a_missing_delta_is_named() -> None:
    with pytest.raises(MissingFileError, match=r"state/0/0/3\.delta: version 4 needs this delta"):
        files("1.delta", "2.delta", "2.snapshot", "4.delta").chain(4)


def test_a_version_not_written_yet() -> None:
    with pytest.raises(BatchNotAvailableError, match="no state of version 3; the newest is 2"):
        files("1.delta", "2.delta").chain(3)


def test_a_version_that_retention_removed() -> None:
    with pytest.raises(BatchNotAvailableError, match=r"retention has removed .* oldest version that can be read is 6"):
        files("5.delta", "6.delta", "6.snapshot", "7.delta").chain(4)
