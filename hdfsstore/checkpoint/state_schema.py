"""Schema files: the types of a store's keys and values.

    state/<op>/0/_metadata/schema                      versions 1 and 2, in partition 0 for all of them
    state/<op>/0/<store>/_metadata/schema              the same, of a store that is not "default"
    state/<op>/_stateSchema/<store>/<batch>_<uuid>     version 3: stores with column families

    utf            uint16 BE length | that many bytes of Java's modified UTF-8
    json           int32 BE n | n utf, whose texts joined are JSON

    version 1      utf "v1" | utf key schema | utf value schema
    version 2      utf "v2" | json key schema | json value schema
    version 3      utf "v3" | int32 BE number of families | for each of them
                       utf name
                       int16 BE key schema id, not in Spark 4.0.0 | json key schema
                       int16 BE value schema id, not in Spark 4.0.0 | json value schema
                       json key encoder | json user key schema, "{    }" = none

SchemaHelper.scala in Spark; Java's DataInput for modified UTF-8.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyarrow.fs import FileSystem

from hdfsstore.checkpoint.json_files import Text, parse_version
from hdfsstore.codecs.types import StructType, parse_type
from hdfsstore.errors import CorruptFileError, StateStoreError
from hdfsstore.fs import read_file

NEWEST_VERSION = 3
DEFAULT_FAMILY = "default"


@dataclass(frozen=True, slots=True)
class ColumnFamily:
    """The types of one column family; before version 3 a store has one, "default".

    Attributes:
        key_encoder: how keys are laid out: keyStateEncoderType and its parameters; empty before version 3.
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


def read_state_schema(fs: FileSystem, path: str) -> list[ColumnFamily]:
    """The column families of a schema file.

    Raises:
        FileNotFoundError, CorruptFileError, UnsupportedVersionError.
    """
    return parse_state_schema(read_file(fs, path), path)


def parse_state_schema(data: bytes, path: str) -> list[ColumnFamily]:
    """As read_state_schema, of a file's content."""
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
        """Text whose characters above U+FFFF are still two surrogates, as modified UTF-8 has them."""
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
            raise self._error(f"{size} bytes are needed, the file ends before", start)
        self.at = start + size
        return self._data[start : self.at]

    def _error(self, message: str, at: int) -> CorruptFileError:
        return CorruptFileError(message, self._path, at)
