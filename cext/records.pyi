import pyarrow as pa
from typing_extensions import Buffer

class RecordParser:
    consumed: int
    ended: bool
    def __init__(
        self,
        *,
        row_checksums: bool,
        tombstones: bool,
        max_record_bytes: int,
        value_checksums: bool = True,
        typed: bool = False,
    ) -> None: ...
    def parse(self, chunk: Buffer, size: int) -> int: ...
    @property
    def keys(self) -> pa.Buffer: ...
    @property
    def values(self) -> pa.Buffer: ...
    @property
    def kinds(self) -> pa.Buffer | None: ...

def encode_records(
    keys: pa.BinaryArray | pa.LargeBinaryArray,
    values: pa.BinaryArray | pa.LargeBinaryArray,
    *,
    row_checksums: bool = False,
) -> pa.Buffer: ...
def encode_spans(data: Buffer, keys: Buffer, values: Buffer, *, row_checksums: bool = False) -> pa.Buffer: ...
def digest_spans(data: Buffer, keys: Buffer, values: Buffer) -> int: ...
def spans_of_part(data: Buffer, keys: Buffer, kinds: Buffer | None, part: int, parts: int) -> pa.Buffer: ...
