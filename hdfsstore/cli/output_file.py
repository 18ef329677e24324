"""Opens what rows are written to: stdout, or a file that appears when it is complete, compressed as its name says."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import IO

import pyarrow as pa
import typer

from hdfsstore.errors import StateStoreError


class Format(StrEnum):
    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"
    ARROW = "arrow"


BINARY = (Format.PARQUET, Format.ARROW)
_BY_SUFFIX = {
    ".csv": Format.CSV,
    ".json": Format.JSON,
    ".jsonl": Format.JSON,
    ".ndjson": Format.JSON,
    ".parquet": Format.PARQUET,
    ".arrow": Format.ARROW,
    ".feather": Format.ARROW,
}
# Errors of a write, which tell no file.
_OF_THE_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
_CODECS = {".gz": "gzip", ".zst": "zstd"}


def format_of(output: Path, given: Format | None) -> Format:
    """The format of a file: the one that is given, else the one that its name tells.

    Raises:
        BadParameter: the name tells none, or says that a file is compressed that compresses its columns itself.
    """
    codec = _CODECS.get(output.suffix)
    name = output.with_suffix("") if codec else output
    chosen = given or _BY_SUFFIX.get(name.suffix)
    if chosen is None:
        endings = ", ".join(_BY_SUFFIX)
        raise typer.BadParameter(
            f"the name {output.name} does not tell the format: give --format, or a name that ends in one of {endings} "
            f"(text also with {' or '.join(_CODECS)} after it)",
            param_hint="-o",
        )
    if codec and chosen in BINARY:
        raise typer.BadParameter(
            f"{chosen} is compressed inside: leave {output.suffix} out of the name", param_hint="-o"
        )
    return chosen


@contextmanager
def opened(output: Path | None) -> Iterator[IO[bytes]]:
    """What to write to: stdout, or a file that gets its name at the end.

    Raises:
        StateStoreError: the file cannot be written.
    """
    if output is None:
        sys.stdout.flush()
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    unfinished = output.with_name(f".{output.name}.{os.getpid()}.tmp")
    with _named(output):
        file = unfinished.open("xb")
    try:
        with file, _named(output, _OF_THE_DISK):
            if codec := _CODECS.get(output.suffix):
                with pa.CompressedOutputStream(file, codec) as compressed:
                    yield compressed
            else:
                yield file
        with _named(output):
            unfinished.replace(output)
    finally:
        unfinished.unlink(missing_ok=True)


@contextmanager
def _named(output: Path, of: Collection[int] | None = None) -> Iterator[None]:
    """Errors of the system, all or those of some numbers, name this file, and not the temporary one."""
    try:
        yield
    except OSError as error:
        if of is not None and error.errno not in of:
            raise
        raise StateStoreError(
            f"the file cannot be written: {error.strerror or type(error).__name__}",
            str(output),
            remedy="See that the folder exists, may be written and has room",
        ) from None
