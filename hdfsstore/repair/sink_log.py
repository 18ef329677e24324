"""The log of a file sink, `<path>/_spark_metadata`: which files a batch has added.

    <b>           v1                                  files of batch b, a JSON object a line; often none
                  {"path":...,"size":...,...}
    <b>.compact   the same                            files of batch b and of all batches before it

Every batch has an entry; every k-th one (10 unless the query had another setting) is compacted, when (b + 1) mod k is
0. The sink skips a batch at or below its newest entry. A query ends where the entries since the last compacted one are
not all there. FileStreamSink.scala, CompactibleFileStreamLog.scala in Spark.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from pyarrow.fs import FileType

from hdfsstore.errors import RepairError
from hdfsstore.fs.file_manager import FileManager
from hdfsstore.fs.reading import read_file
from hdfsstore.fs.uris import scheme_of

FOLDER = "_spark_metadata"
_COMPACT = ".compact"
_DEFAULT_INTERVAL = 10
_NAME = re.compile(r"\.?(\d{1,18})(\.compact)?(?:\.crc)*", re.ASCII)
_VERSION = b"v1"


class SinkLog:
    """The log of a sink, listed once.

    Args:
        fs, path: the sink's folder.

    Raises:
        RepairError: no file sink has written there.
    """

    def __init__(self, fs: FileManager, path: str) -> None:
        self._fs = fs
        self._folder = f"{path}/{FOLDER}"
        self._names: dict[int, list[str]] = {}
        self._compacted: set[int] = set()
        for info in fs.list_folder(self._folder):
            match = _NAME.fullmatch(info.base_name) if info.type == FileType.File else None
            if match is None:
                continue
            self._names.setdefault(int(match[1]), []).append(info.base_name)
            if info.base_name == match[1] + _COMPACT:
                self._compacted.add(int(match[1]))
        if not self._names:
            raise RepairError(
                "there is no log of a file sink", self._folder, remedy="Give the folder that the query writes to"
            )

    def after(self, batch_id: int) -> list[str]:
        """The files of later batches relative to the sink, the newest first.

        Raises:
            RepairError: the entries of the batches until then are not all there, so Spark could not go on from them.
        """
        start = max((number for number in self._compacted if number <= batch_id), default=0)
        for number in range(start, batch_id + 1):
            if number not in self._names:
                raise RepairError(
                    f"the sink's log has no entry of batch {number}: Spark cannot go on after batch {batch_id}",
                    self._folder,
                    remedy="Go on with another path for the sink, or take a later batch, or give --continue-numbers",
                )
        return self.later(batch_id)

    def later(self, batch_id: int) -> list[str]:
        """The same, whatever is there of the batches until then."""
        later = sorted((number for number in self._names if number > batch_id), reverse=True)
        return [f"{FOLDER}/{name}" for number in later for name in sorted(self._names[number], key=_side_files_first)]

    def empty_entries(self, batch_ids: Sequence[int]) -> Iterator[tuple[str, bytes]]:
        """The entries of the next batches, without files: their paths relative to the sink, and their contents.

        Raises:
            RepairError: the entries that a compacted one needs are not all there.
        """
        interval = self._interval()
        compacted: list[bytes] = []
        for batch_id in batch_ids:
            if (batch_id + 1) % interval:
                yield f"{FOLDER}/{batch_id}", _VERSION
                continue
            if not compacted:
                for number in range(max(0, batch_id - interval), batch_ids[0]):
                    compacted += self._lines(number)
            yield f"{FOLDER}/{batch_id}{_COMPACT}", b"\n".join([_VERSION, *compacted])

    def _interval(self) -> int:
        """The interval that Spark tells from the names: by two compacted entries, or by a divisor of the only one."""
        newest = sorted(self._compacted)[-2:]
        if len(newest) == 2:
            return newest[1] - newest[0]
        if not newest:
            return _DEFAULT_INTERVAL
        batches = newest[0] + 1
        divisors = (number for number in range(_DEFAULT_INTERVAL, batches // 2 + 1) if batches % number == 0)
        return next(divisors, batches) if batches // 2 > _DEFAULT_INTERVAL else batches

    def _lines(self, batch_id: int) -> list[bytes]:
        for name in (f"{batch_id}{_COMPACT}", f"{batch_id}"):
            with suppress(FileNotFoundError):
                return read_file(self._fs, f"{self._folder}/{name}").splitlines()[1:]
        raise RepairError(
            f"the sink's log has no entry of batch {batch_id}, which the next compacted one needs",
            self._folder,
            remedy="Give the sink another path when the query starts again",
        )


def absolute_location(location: str | os.PathLike[str]) -> str:
    """A location that means the same in another process: a URI, or an absolute path."""
    text = os.fspath(location)
    return text if scheme_of(text) is not None else Path(text).absolute().as_posix()


def _side_files_first(name: str) -> tuple[bool, str]:
    return not name.endswith(".crc"), name
