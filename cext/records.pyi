import pyarrow as pa
from typing_extensions import Buffer

class RecordParser:
    consumed: int
    ended: bool
    def __init__(self, *, row_checksums: bool, tombstones: bool, max_record_bytes: int) -> None: ...
    def parse(self, chunk: Buffer, size: int) -> int: ...
    @property
    def keys(self) -> pa.Buffer: ...
    @property
    def values(self) -> pa.Buffer: ...

def encode_records(
    keys: pa.BinaryArray | pa.LargeBinaryArray,
    values: pa.BinaryArray | pa.LargeBinaryArray,
    *,
    row_checksums: bool = False,
) -> pa.Buffer: ...
