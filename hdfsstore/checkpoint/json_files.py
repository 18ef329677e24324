"""Reads and writes the small text files of a checkpoint: a version line, then JSON, one object a line.

    v1
    {"nextBatchWatermarkMs":0}

A field of another type raises CorruptFileError with the file and the byte where its text starts. A validation library
would know its path in the JSON, but not that byte.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from hdfsstore.errors import CorruptFileError, UnsupportedVersionError
from hdfsstore.fs.file_manager import FileManager
from hdfsstore.fs.reading import read_file

_VERSION = re.compile(r"v(\d{1,9})", re.ASCII)
# Spark reads lines with Java's BufferedReader.readLine, which ends a line at any of these.
_LINE_END = re.compile(rb"\r\n|\n|\r")
_INT64 = range(-(1 << 63), 1 << 63)


@dataclass(frozen=True, slots=True)
class Text:
    """A piece of a file, and the byte where it starts."""

    text: str
    path: str
    offset: int

    def error(self, message: str, at: int = 0) -> CorruptFileError:
        """An error about the character at index `at`."""
        return CorruptFileError(message, self.path, self.offset + len(self.text[:at].encode()))

    def json_object(self) -> JsonObject:
        try:
            value = json.loads(self.text)
        except json.JSONDecodeError as error:
            raise self.error(f"not JSON: {error.msg}", error.pos) from error
        except (ValueError, RecursionError) as error:
            raise self.error(f"not JSON that Spark writes: {error}") from error
        return JsonObject(value, self)


class JsonObject:
    """Reads the fields of a JSON object, and checks the type of each."""

    def __init__(self, value: object, source: Text) -> None:
        if not isinstance(value, dict):
            raise source.error("not a JSON object")
        self._fields: dict[str, Any] = value
        self._source = source

    def as_dict(self) -> dict[str, Any]:
        return self._fields

    def __contains__(self, name: str) -> bool:
        return self._fields.get(name) is not None

    def error(self, message: str) -> CorruptFileError:
        return self._source.error(message)

    def integer(self, name: str, default: int | None = None) -> int:
        value = self._fields.get(name, default)
        if type(value) is not int or value not in _INT64:
            raise self._wrong(name, "a 64-bit integer")
        return value

    def string(self, name: str) -> str:
        value = self._fields.get(name)
        if not isinstance(value, str):
            raise self._wrong(name, "a string")
        return value

    def strings(self, name: str) -> list[str]:
        """A list of strings."""
        value = self._fields.get(name)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self._wrong(name, "a list of strings")
        return value

    def string_map(self, name: str) -> dict[str, str]:
        """An object whose values are strings; empty if the field is missing."""
        value = self.plain(name)
        if not all(isinstance(item, str) for item in value.values()):
            raise self._wrong(name, "an object of strings")
        return value

    def plain(self, name: str) -> dict[str, Any]:
        """An object as it is; empty if the field is missing."""
        value = self._fields.get(name)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self._wrong(name, "an object")
        return value

    def child(self, name: str) -> JsonObject:
        return JsonObject(self._fields.get(name), self._source)

    def children(self, name: str) -> list[JsonObject]:
        """A list of objects."""
        value = self._fields.get(name)
        if not isinstance(value, list):
            raise self._wrong(name, "a list")
        return [JsonObject(item, self._source) for item in value]

    def _wrong(self, name: str, what: str) -> CorruptFileError:
        return self._source.error(f"{name} is not {what}")


def parse_text(content: bytes, path: str) -> list[Text]:
    """The lines of a file's content."""
    lines, start = [], 0
    for end in _LINE_END.finditer(content):
        lines.append((start, end.start()))
        start = end.end()
    if start < len(content):
        lines.append((start, len(content)))
    try:
        content.decode()
    except UnicodeDecodeError as error:
        raise CorruptFileError("not UTF-8 text", path, error.start) from error
    return [Text(content[begin:end].decode(), path, begin) for begin, end in lines]


def read_versioned(
    fs: FileManager, path: str, newest_version: int, siblings: Collection[str] | None = None
) -> tuple[int, list[Text]]:
    """The version of a log file and the lines after it.

    Raises:
        UnsupportedVersionError: the version is above `newest_version`.
    """
    return parse_versioned(read_file(fs, path, siblings), path, newest_version)


def parse_versioned(content: bytes, path: str, newest_version: int) -> tuple[int, list[Text]]:
    """Parses the content of a log file."""
    lines = parse_text(content, path)
    if not lines:
        raise CorruptFileError("the file is empty", path, 0)
    version = parse_version(lines[0].text.strip(), path, newest_version)
    return version, lines[1:]


def encode_versioned(version: int, *lines: str) -> bytes:
    """The content of a log file: its version and the lines after it, without a line end after the last."""
    return "\n".join((f"v{version}", *lines)).encode()


def parse_version(text: str, path: str, newest_version: int) -> int:
    """The number of `v<number>`, at least 1."""
    found = _VERSION.fullmatch(text)
    version = int(found[1]) if found else 0
    if not version:
        raise CorruptFileError(f"{text[:20]!r} is not a format version", path, 0)
    if version > newest_version:
        raise UnsupportedVersionError(
            f"format version {version} is newer than version {newest_version}, the newest that this release knows",
            path,
            remedy="Use a newer release of hdfsstore",
        )
    return version
