"""A start is refused where two drivers could both finish a batch."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hdfsstore.errors import NotPromisedError, StateStoreError
from hdfsstore.fs.arrow_files import ArrowFileManager
from hdfsstore.fs.location import Location
from hdfsstore.spark.querylog.fence import check_fence
from tests.support.fsspec_folder import Folder

if TYPE_CHECKING:
    from typing_extensions import Buffer


class Ignoring(ArrowFileManager):
    """Of a server that takes the condition of a write, and overwrites."""

    def create(self, path: str, content: Iterable[Buffer]) -> None:
        self.replace(path, content)


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


@pytest.mark.parametrize("place", [Path, str, lambda path: (Folder(path, "hdfs").filesystem, "/")])
def test_where_it_is_promised_and_kept_nothing_is_left(tmp_path: Path, place: object) -> None:
    for _ in range(2):
        check_fence(place(tmp_path), single_driver=False)  # type: ignore[operator]
    assert not files(tmp_path)


@pytest.mark.parametrize("protocol", ["s3", "gs", "abfs", "sftp"])
def test_where_it_is_not_promised_only_the_user_can_answer_for_it(
    tmp_path: Path, protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    options = {"host": "server", "password": "s3cr3t"}
    place: Location = Folder(tmp_path, protocol, storage_options=options).filesystem, "/cp"
    with pytest.raises(NotPromisedError, match="two drivers") as caught:
        check_fence(place, single_driver=False)
    assert "hdfsstore.singleDriver" in str(caught.value)
    assert f"{protocol}://server" in str(caught.value)
    assert "s3cr3t" not in str(caught.value)
    caplog.clear()
    check_fence(place, single_driver=True)
    assert "do not run on such a filesystem" in caplog.text
    assert not list(tmp_path.iterdir())


def test_a_server_that_ignores_the_condition_is_found_out(tmp_path: Path) -> None:
    place: Location = Ignoring(Folder(tmp_path, "hdfs").filesystem), "/cp"
    with pytest.raises(NotPromisedError, match="was there already"):
        check_fence(place, single_driver=False)
    assert not files(tmp_path)


def test_a_filesystem_that_fails_is_no_verdict(tmp_path: Path) -> None:
    (tmp_path / "cp").write_bytes(b"in the way")
    with pytest.raises(StateStoreError) as caught:
        check_fence(tmp_path / "cp", single_driver=False)
    assert not isinstance(caught.value, NotPromisedError)
