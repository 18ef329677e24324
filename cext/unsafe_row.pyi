import pyarrow as pa

Field = tuple[int, pa.Buffer | None, pa.Buffer | None]

def read_fields(
    data: pa.Buffer, spans: pa.Buffer, kinds: bytes, digits: bytes, paths: list[str], path: str
) -> tuple[int, pa.Buffer | None, list[Field]]: ...
