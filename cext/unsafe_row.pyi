import pyarrow as pa

Field = tuple[int, pa.Buffer | None, pa.Buffer | None]
Source = tuple[int, pa.Buffer | None, pa.Buffer | None, pa.Buffer | None]

def read_fields(
    data: pa.Buffer, spans: pa.Buffer, kinds: bytes, digits: bytes, paths: list[str], path: str, prefix: bytes = b""
) -> tuple[int, pa.Buffer | None, list[Field]]: ...
def row_sizes(
    count: int, first: int, validity: pa.Buffer | None, kinds: bytes, digits: bytes, columns: list[Source]
) -> pa.Buffer: ...
def write_fields(
    out: pa.Buffer, places: pa.Buffer, kinds: bytes, digits: bytes, columns: list[Source]
) -> tuple[int, list[pa.Buffer | None]]: ...
