"""The map: images, layers and transactions, against dicts."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pytest

from hdfsstore._cext.records import encode_records
from hdfsstore._cext.versioned_map import Image, ImageBuilder, PrefixPlan, Transaction, VersionedMap
from hdfsstore.codecs.records import decode_records

PATH = "the-image"


def binary(values: list[bytes]) -> pa.BinaryArray:
    return pa.array(values, pa.binary())


def image_of(state: Mapping[bytes, bytes], *, row_checksums: bool = False, prefix: PrefixPlan | None = None) -> Image:
    content = encode_records(binary(list(state)), binary(list(state.values())), row_checksums=row_checksums)
    data = memoryview(content).cast("B")
    keys, values, _ = decode_records(data, row_checksums=row_checksums)
    builder = ImageBuilder(row_checksums=row_checksums, prefix=prefix)
    builder.append(data, keys, values)
    return builder.finish()


def content_of(transaction: Transaction, max_bytes: int = 100) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    for keys, values in transaction.scan(max_bytes):
        keys.validate(full=True)
        values.validate(full=True)
        pairs = dict(zip(keys.to_pylist(), values.to_pylist(), strict=True))
        assert len(pairs) == len(keys)
        assert not found.keys() & pairs.keys()
        found |= pairs
    return found


@pytest.mark.parametrize("row_checksums", [False, True])
def test_a_batch_on_an_image_in_memory_and_in_a_file(row_checksums: bool) -> None:
    state = {b"%d" % i: b"value %d" % i for i in range(10_000)}
    built = image_of(state, row_checksums=row_checksums)
    file = pa.py_buffer(b"".join(built.parts(b"metadata")))
    opened = Image.open(file, PATH)
    assert opened.metadata == b"metadata"
    keys = [*state, b"absent"]
    after = {**state, b"1": b"b", b"x": b""}
    del after[b"2"]
    for image in (built, opened):
        assert image.num_keys == 10_000
        map_ = VersionedMap(image)
        transaction = map_.transaction(0)
        assert transaction.get_many(binary(keys)).to_pylist() == [*state.values(), None]
        transaction.put_many(binary([b"1", b"x", b"1"]), binary([b"a", b"", b"b"]))
        assert transaction.remove(b"2")
        assert not transaction.remove(b"2")
        assert transaction.num_keys == 10_000
        layer = map_.add(0, transaction.seal())
        assert map_.num_keys(layer) == 10_000
        assert content_of(map_.transaction(layer)) == after
        assert content_of(map_.transaction(0)) == state
