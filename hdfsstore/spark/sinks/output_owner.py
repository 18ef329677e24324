"""Marks a folder of output with the id of the query that it belongs to, and refuses other queries.

    <path>/_hdfsstore_query      {"id":"<id of the query, as in <checkpoint>/metadata>"}

Readers ignore names that begin with "_". The file is created only if absent, before any output, and read again before
each batch. So if several queries start at the same moment, one gets the folder, and the others are refused.

Earlier releases wrote folders without the file. A query may go on in such a folder if its log fits the batches there:
each batch that is in the folder and in the log was written between its beginning and its end.
"""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Set

from hdfsstore.checkpoint.metadata_log import MetadataLog
from hdfsstore.checkpoint.offset_log import read_offset_log
from hdfsstore.checkpoint.query_metadata import encode_query_metadata, parse_query_metadata, read_query_id
from hdfsstore.errors import MissingFileError, StateStoreError, remedied
from hdfsstore.fs.file_manager import FileManager
from hdfsstore.fs.location import Location, resolve
from hdfsstore.fs.publish import publish
from hdfsstore.spark.querylog.log_entries import FOLDER
from hdfsstore.spark.sinks.output_folder import OutputFolder

log = logging.getLogger("hdfsstore.spark.output_owner")

MARK = "_hdfsstore_query"
SUCCESS = "_SUCCESS"
_BATCH = re.compile(r"batch=(0|[1-9]\d*)", re.ASCII)
# Left by a killed driver of an earlier release, which wrote no marks: _writing-<batch>-<uuid>.
_UNMARKED_WRITING = re.compile(r"_writing-\d+-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
# The most by which the clocks of the driver and of the filesystems may differ.
_CLOCKS_MS = 2_000


def batch_folder(batch_id: int) -> str:
    """The name of a batch's folder."""
    return f"batch={batch_id}"


def claim(folder: OutputFolder, checkpoint: Location) -> str:
    """Marks the folder as the query's, unless it is so already. Returns the query's id.

    Args:
        checkpoint: the query's checkpointLocation. If Spark has never started the query, it gets its id here.

    Raises:
        StateStoreError: the folder has output of another query, or of an unknown one.
        MissingFileError: the query has run, and Spark's file with its id is missing.
        CorruptFileError: the folder's mark, or that file, is damaged.
    """
    fs, path = resolve(checkpoint)
    owner = check(folder, checkpoint)
    query_id = _query_id(fs, path) or _new_query_id(fs, path)
    if owner is None:
        folder.create(MARK, encode_query_metadata(query_id))
        _check(folder, _owner(folder), query_id)
        names = folder.names()
        if any(map(_BATCH.fullmatch, names)):  # the query's own, written before there were marks
            for name in filter(_UNMARKED_WRITING.fullmatch, names):
                folder.delete(name)
    return query_id


def check(folder: OutputFolder, checkpoint: Location) -> str | None:
    """Checks as claim does, without a change. Returns the id in the folder's mark; None if it has no mark."""
    fs, path = resolve(checkpoint)
    owner = _owner(folder)
    if owner is None:
        _check_unmarked(folder, fs, path)
    else:
        _check(folder, owner, _query_id(fs, path))
    return owner


def _owner(folder: OutputFolder) -> str | None:
    content = folder.read(MARK)
    if content is None:
        return None
    with remedied("If the output there is of this query, delete this file, and it is written again"):
        return parse_query_metadata(content, f"{folder.path}/{MARK}")


def _check(folder: OutputFolder, owner: str | None, query_id: str | None) -> None:
    if owner != query_id:
        who = f"this is query {query_id}" if query_id else "this query is a new one"
        raise StateStoreError(
            f"the output there is of query {owner}, and {who}: its batches would replace those of the other",
            f"{folder.path}/{MARK}",
            remedy="Choose another path for the output; or delete that folder, if you do not need its content",
        )


def _check_unmarked(folder: OutputFolder, fs: FileManager, checkpoint: str) -> None:
    found = {int(match[1]) for match in map(_BATCH.fullmatch, folder.names()) if match}
    if not found:
        return
    query_id = _query_id(fs, checkpoint)
    if query_id is None or not _has_written(folder, found, fs, f"{checkpoint}/{FOLDER}"):
        mark = encode_query_metadata(query_id or "<the id in the file metadata of its checkpoint>").decode()
        raise StateStoreError(
            f"there are batches {min(found)} to {max(found)} of a query that has left no {MARK}, and the log in "
            f"{checkpoint} does not fit them: the batches of this query would replace them",
            folder.path,
            remedy="Choose another path for the output; or delete that folder, if you do not need its content. If this "
            f"query wrote it, put a file {MARK} there, with the content {mark}",
        )
    log.info("%s: query %s wrote the output there, by the log of its checkpoint", folder.path, query_id)


def _has_written(folder: OutputFolder, found: Set[int], fs: FileManager, root: str) -> bool:
    """Whether each batch that is in the folder and in the query's log was written between its beginning and its end.

    Args:
        found: the batches in the folder. Other batches may have been deleted or moved away.
        root: `<checkpoint>/hdfsstore`.
    """
    done = MetadataLog(fs, f"{root}/commits", read_offset_log).list().files
    offsets = MetadataLog(fs, f"{root}/offsets", read_offset_log)
    begun = offsets.list()
    if max(found) > max(begun.files, default=-1):
        return False
    entries = offsets.read_all(begun, begun.files)
    expected = found & done.keys()
    for batch_id in expected:
        written = folder.modified_ms(f"{batch_folder(batch_id)}/{SUCCESS}")
        entry, ended_ns = entries.get(batch_id), done[batch_id].mtime_ns
        if written is None or entry is None or ended_ns is None:
            return False
        if not entry.timestamp_ms - _CLOCKS_MS <= written <= ended_ns // 1_000_000 + _CLOCKS_MS:
            return False
    return bool(expected)


def _query_id(fs: FileManager, checkpoint: Location) -> str | None:
    """The id that the query has; None if it was never started."""
    path = f"{checkpoint}/metadata"
    try:
        return read_query_id(fs, path)
    except FileNotFoundError:
        if not fs.list_folder(f"{checkpoint}/offsets"):
            return None
        raise MissingFileError(
            "Spark's file with the query's id is not there",
            path,
            remedy=f"Put it back; {checkpoint}/{FOLDER}/metadata is a copy, if it is there",
        ) from None


def _new_query_id(fs: FileManager, checkpoint: Location) -> str:
    """Gives the query an id. Spark finds it in its file and keeps it."""
    path = f"{checkpoint}/metadata"
    try:
        publish(fs, path, encode_query_metadata(str(uuid.uuid4())), overwrite=False)
    except FileExistsError:
        log.debug("%s: another start of the query has written the id first", path)
    return read_query_id(fs, path)
