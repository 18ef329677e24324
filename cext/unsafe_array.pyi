import pyarrow as pa

def read_elements(
    data: pa.Buffer, spans: pa.Buffer, kind: str, digits: int, path: str
) -> tuple[pa.Buffer, int, int, pa.Buffer | None, pa.Buffer | None]: ...
def array_sizes(
    count: int, first: int, validity: pa.Buffer | None, offsets: pa.Buffer, kind: str, sizes: pa.Buffer | None
) -> pa.Buffer: ...
def write_elements(
    out: pa.Buffer,
    places: pa.Buffer,
    first: int,
    offsets: pa.Buffer,
    kind: str,
    digits: int,
    column: tuple[int, pa.Buffer | None, pa.Buffer | None, pa.Buffer | None],
) -> tuple[bool, pa.Buffer | None]: ...
