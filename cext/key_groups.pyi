import pyarrow as pa

def group_rows(
    keys: pa.BinaryArray | pa.LargeBinaryArray, is_sorted: bool
) -> tuple[pa.Buffer | None, pa.Buffer, pa.Buffer]: ...
