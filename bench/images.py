"""Images of the store's rows, for benchmarks of the compiled map."""

from __future__ import annotations

import pyarrow as pa

from bench import store_data
from hdfsstore._cext.records import RecordParser, encode_records
from hdfsstore._cext.versioned_map import Image, ImageBuilder

CHUNK = 100_000
MAX_RECORD_BYTES = 1 << 20


def image_of(num_keys: int) -> Image:
    """The image of the store's snapshot."""
    builder = ImageBuilder(row_checksums=False, expected_bytes=num_keys * store_data.RECORD_BYTES)
    parser = RecordParser(row_checksums=False, tombstones=False, max_record_bytes=MAX_RECORD_BYTES)
    for start in range(0, num_keys, CHUNK):
        ids = pa.array(range(start, min(start + CHUNK, num_keys)), pa.int64())
        raw = memoryview(encode_records(*store_data.rows(ids))).cast("B")
        parser.parse(raw, len(raw))
        builder.append(raw, parser.keys, parser.values)
    return builder.finish()
