"""Checks what the sources of a query have noted in `sources/<source id>` (source_logs.py has what that is).

Spark reads it when the query starts: of a file source all entries from the newest compacted one on, up to the newest.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import partial

from pyarrow.fs import FileInfo, FileType

from hdfsstore.checkpoint.json_files import parse_versioned
from hdfsstore.checkpoint.offset_log import OffsetLogEntry
from hdfsstore.errors import CorruptFileError, MissingFileError, StateStoreError
from hdfsstore.fs.file_manager import FileManager
from hdfsstore.fs.in_order import in_order
from hdfsstore.fs.reading import read_file
from hdfsstore.repair.findings import Findings
from hdfsstore.repair.source_logs import COMPACT, ENTRY, FILE_FIELDS, is_known, reads_kafka

_REMEDY = "Restore the file, or start from a fork that has it: the query cannot start without it"
_KAFKA = b"\0v1\n"
_NEWEST_VERSION = 1


def verify_sources(
    fs: FileManager, sources: str, newest: OffsetLogEntry | None, findings: Findings, notes: list[str]
) -> None:
    """Checks the folder of each source.

    Args:
        sources: the folder of all sources.
        newest: the newest entry of the offset log, whose offsets tell what the sources are.
        findings: what is damaged is added here.
        notes: so is here what cannot be checked.
    """
    folders = {info.base_name for info in fs.list_folder(sources) if info.type == FileType.Directory}
    offsets = {} if newest is None else dict(zip(newest.source_ids, newest.offsets, strict=True))
    logged = {source_id: entry for source_id, offset in offsets.items() if (entry := _file_entry(offset)) is not None}
    for source_id in sorted({*folders, *logged}):
        path = f"{sources}/{source_id}"
        infos = [info for info in fs.list_folder(path) if info.type == FileType.File]
        if source_id in logged:
            _verify_file_source(fs, path, infos, logged[source_id], findings)
        else:
            _verify_other(fs, infos, reads_kafka([offsets.get(source_id)]), findings, notes)


def _file_entry(offset: str | None) -> int | None:
    """The entry of a file source's log that an offset names; None: it is another source's."""
    try:
        fields = json.loads(offset or "")
    except ValueError:
        return None
    entry = fields.get("logOffset") if isinstance(fields, dict) and len(fields) == 1 else None
    return entry if type(entry) is int and entry >= 0 else None


def _verify_file_source(fs: FileManager, folder: str, infos: Iterable[FileInfo], last: int, findings: Findings) -> None:
    there, base = dict[int, str](), 0
    names = {info.base_name for info in infos}
    for name in sorted(names):  # 9 before 9.compact, which Spark reads
        if match := ENTRY.fullmatch(name):
            number = int(match[1])
            there[number] = name
            base = max(base, number) if name.endswith(COMPACT) else base
    numbers = range(base, max([last, *there]) + 1)
    for number in numbers:
        if number not in there:
            lost = MissingFileError(
                "the entry of this offset is missing in the log of a file source", f"{folder}/{number}", remedy=_REMEDY
            )
            findings.add(lost, ())

    def check(name: str) -> StateStoreError | None:
        path = f"{folder}/{name}"
        try:
            _check_entry(read_file(fs, path, names), path)
        except FileNotFoundError:  # removed since the listing
            return None
        except StateStoreError as error:
            error.remedy = error.remedy or _REMEDY
            return error
        return None

    with in_order(fs, [partial(check, there[number]) for number in numbers if number in there]) as checked:
        for error in checked:
            if error is not None:
                findings.add(error, ())


def _check_entry(content: bytes, path: str) -> None:
    """Raises StateStoreError unless it is an entry of a file source's log."""
    _, lines = parse_versioned(content, path, _NEWEST_VERSION)
    for line in lines:
        fields = line.json_object()
        if missing := FILE_FIELDS - fields.as_dict().keys():
            raise line.error(f"a file has no {' and no '.join(sorted(missing))}")


def _verify_other(
    fs: FileManager, infos: Iterable[FileInfo], is_kafka: bool, findings: Findings, notes: list[str]
) -> None:
    entries = [info for info in infos if ENTRY.fullmatch(info.base_name)]
    for info in entries:
        try:
            content = read_file(fs, info.path)
        except FileNotFoundError:
            continue
        except StateStoreError as error:
            findings.add(error, ())
            continue
        if not content or (is_kafka and not (content.startswith(_KAFKA) and reads_kafka([_text(content)]))):
            message = "not the offsets at which Kafka's source began" if is_kafka else "the file is empty"
            findings.add(CorruptFileError(message, info.path, 0, remedy=_REMEDY), ())
        elif not is_known(content, [each.base_name for each in entries]):
            notes.append(f"{info.path}: what this source has noted is not known, and not checked")


def _text(content: bytes) -> str:
    return content.removeprefix(_KAFKA).decode(errors="replace")
