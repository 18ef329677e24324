"""Reads and writes `<checkpoint>/metadata`: the query's id, which stays the same over all restarts.

    {"id":"6e14c4e5-3a0c-4d9e-9f26-6a2a6d3d9c5b"}

StreamMetadata.scala in Spark.
"""

from __future__ import annotations

from hdfsstore.checkpoint.json_files import Text, parse_text
from hdfsstore.codecs.spark_json import dump_json
from hdfsstore.errors import remedied
from hdfsstore.fs.file_manager import FileManager
from hdfsstore.fs.reading import read_file

_REMEDY = (
    'Restore the file from a copy, or write {"id":"..."} with the id that the query\'s progress and Spark\'s log have. '
    "All else can still be read; Spark does not start from a damaged file"
)


def read_query_id(fs: FileManager, path: str) -> str:
    """The id that the file holds.

    Raises:
        FileNotFoundError, CorruptFileError.
    """
    with remedied(_REMEDY):
        return parse_query_metadata(read_file(fs, path), path)


def parse_query_metadata(content: bytes, path: str) -> str:
    """The id in the file's content.

    Raises:
        CorruptFileError: the content is not that of such a file.
    """
    lines = parse_text(content, path)
    return Text("\n".join(line.text for line in lines), path, 0).json_object().string("id")


def encode_query_metadata(query_id: str) -> bytes:
    """The content of the file."""
    return dump_json({"id": query_id}).encode()
