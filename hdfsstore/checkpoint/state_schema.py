"""Reads and writes schema files: the types of a store's keys and values.

    state/<op>/0/_metadata/schema                      versions 1 and 2, in partition 0 for all of them
    state/<op>/0/<store>/_metadata/schema              the same, of a store that is not "default"
    state/<op>/_stateSchema/<store>/<batch>_<uuid>     version 3: stores with column families

    utf            uint16 BE length | that many bytes of Java's modified UTF-8
    json           int32 BE n | n utf, whose texts joined are JSON

    version 1      utf "v1" | utf key schema | utf value schema
    version 2      utf "v2" | json key schema | json value schema
    version 3      utf "v3" | int32 BE number of families | for each of them
                       utf name
                       int16 BE key schema id, since 4.0.0 | json key schema
                       int16 BE value schema id, since 4.0.0 | json value schema
                       json key encoder | json user key schema, "{    }" = no user key

SchemaHelper.scala in Spark; Java's DataInput for modified UTF-8.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hdfsstore.checkpoint.json_files import Text, parse_version
from hdfsstore.codecs.spark_json import dump_json
from hdfsstore.codecs.types import StructType, parse_type, to_json
from hdfsstore.errors import CorruptFileError, StateStoreError
from hdfsstore.fs.file_manager import FileManager
from hdfsstore.fs.reading import read_file

NEWEST_VERSION = 3
DEFAULT_FAMILY = "default"
_NO_USER_KEY = "{    }"
# The most bytes that a utf holds, and the most UTF-16 units that Spark puts into one.
_MAX_UTF = 65535
_SUPPLEMENTARY = re.compile("[\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class ColumnFamily:
    """The types of one column family; before version 3 a store has one, "default".

    Attributes:
        key_encoder: the layout of keys: keyStateEncoderType and its parameters; empty before version 3.
        user_key_type: the type of a MapState's user keys.
        key_schema_id, value_schema_id: 0, and one more after each change of the schema.
    """

    name: str
    key_type: StructType
    value_type: StructType
    key_encoder: dict[str, Any]
    user_key_type: StructType | None = None
    key_schema_id: int = 0
    value_schema_id: int = 0


def read_state_schema(fs: FileManager, path: str) -> list[ColumnFamily]:
    """The column families of a schema file.

    Raises:
        FileNotFoundError, CorruptFileError, UnsupportedVersionError.
    """
    return parse_state_schema(read_file(fs, path), path)


def parse_state_schema(data: bytes, path: str) -> list[ColumnFamily]:
    """Parses the content of a file."""
    reader = _Reader(data, path)
    version = parse_version(reader.utf().text, path, NEWEST_VERSION)
    if version < NEWEST_VERSION:
        text = reader.utf if version == 1 else reader.json
        families = [ColumnFamily(DEFAULT_FAMILY, _struct(text()), _struct(text()), {})]
        reader.end()
        return families
    start = reader.at
    try:
        return _families(reader, with_ids=True)
    except CorruptFileError as error:
        reader.at = start
        try:
            return _families(reader, with_ids=False)
        except CorruptFileError as other:
            raise max(error, other, key=lambda e: e.offset or 0) from None


def encode_state_schema(families: Sequence[ColumnFamily], version: int) -> bytes:
    """The content of a schema file, as Spark writes it.

    Args:
        families: version 2 holds the types of one, and nothing else of it.
        version: 2 or 3. Spark itself writes version 1 in its tests only.
    """
    out = [_utf(f"v{version}")]
    if version < NEWEST_VERSION:
        (family,) = families
        out += [_json(to_json(family.key_type)), _json(to_json(family.value_type))]
        return b"".join(out)
    out.append(len(families).to_bytes(4, "big"))
    for family in families:
        user_key = _NO_USER_KEY if family.user_key_type is None else to_json(family.user_key_type)
        out += [_utf(family.name), family.key_schema_id.to_bytes(2, "big"), _json(to_json(family.key_type))]
        out += [family.value_schema_id.to_bytes(2, "big"), _json(to_json(family.value_type))]
        out += [_json(dump_json(family.key_encoder)), _json(user_key)]
    return b"".join(out)


def _json(text: str) -> bytes:
    units = _SUPPLEMENTARY.sub(_surrogates, text)
    pieces = _pieces(units, _MAX_UTF)
    if any(len(piece) > _MAX_UTF for piece in pieces):  # Spark fails here
        pieces = _pieces(units, _MAX_UTF // 3)
    return b"".join([len(pieces).to_bytes(4, "big"), *map(_counted, pieces)])


def _pieces(units: str, size: int) -> list[bytes]:
    return [_modified_utf8(units[at : at + size]) for at in range(0, len(units), size)]


def _utf(text: str) -> bytes:
    return _counted(_modified_utf8(_SUPPLEMENTARY.sub(_surrogates, text)))


def _counted(data: bytes) -> bytes:
    return len(data).to_bytes(2, "big") + data


def _modified_utf8(units: str) -> bytes:
    return units.encode("utf-8", "surrogatepass").replace(b"\0", b"\xc0\x80")


def _surrogates(character: re.Match[str]) -> str:
    above = ord(character[0]) - 0x10000
    return chr(0xD800 + (above >> 10)) + chr(0xDC00 + (above & 0x3FF))


def _families(reader: _Reader, with_ids: bool) -> list[ColumnFamily]:
    families = []
    for _ in range(reader.count()):
        name = reader.utf().text
        key_id = reader.integer(2) if with_ids else 0
        key = reader.json()
        value_id = reader.integer(2) if with_ids else 0
        value, encoder, user_key = reader.json(), reader.json(), reader.json()
        families.append(
            ColumnFamily(
                name,
                _struct(key),
                _struct(value),
                encoder.json_object().as_dict(),
                _struct(user_key) if user_key.text.strip("{ }") else None,
                key_id,
                value_id,
            )
        )
    reader.end()
    return families


def _struct(text: Text) -> StructType:
    try:
        parsed = parse_type(text.text)
    except StateStoreError as error:
        raise text.error(error.message) from error
    except RecursionError:
        raise text.error("nested too deeply to be a schema") from None
    if not isinstance(parsed, StructType):
        raise text.error("a schema has to be a struct")
    return parsed


class _Reader:
    def __init__(self, data: bytes, path: str) -> None:
        self.at = 0
        self._data = data
        self._path = path

    def integer(self, size: int) -> int:
        return int.from_bytes(self._take(size), "big", signed=True)

    def count(self) -> int:
        start = self.at
        count = self.integer(4)
        if count < 0:
            raise self._error(f"a negative count, {count}", start)
        return count

    def utf(self) -> Text:
        start = self.at
        return self._text(self._utf_units(), start)

    def json(self) -> Text:
        start = self.at
        return self._text("".join(self._utf_units() for _ in range(self.count())), start)

    def end(self) -> None:
        if self.at < len(self._data):
            raise self._error("more bytes follow than the schema has", self.at)

    def _utf_units(self) -> str:
        """Text in which a character above U+FFFF is still two surrogates, as in modified UTF-8."""
        size = self.integer(2) & 0xFFFF
        start = self.at
        raw = self._take(size)
        try:
            return raw.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
        except UnicodeDecodeError as error:
            raise self._error("not modified UTF-8", start) from error

    def _text(self, units: str, start: int) -> Text:
        try:
            joined = units.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        except UnicodeDecodeError as error:
            raise self._error("half of a surrogate pair", start) from error
        return Text(joined, self._path, start)

    def _take(self, size: int) -> bytes:
        start = self.at
        if size > len(self._data) - start:
            raise self._error(f"{size} bytes are needed, but the file ends before", start)
        self.at = start + size
        return self._data[start : self.at]

    def _error(self, message: str, at: int) -> CorruptFileError:
        return CorruptFileError(message, self._path, at)
