"""What happens when memory is out: MemoryError, and everything from before still there."""

from __future__ import annotations

import subprocess
import sys

import pytest

ROOM = 96 << 20

CHILD = f"""
import gc
import resource
import pyarrow as pa
from hdfsstore._cext.versioned_map import Image, ImageBuilder, VersionedMap
from tests.unit.state.maps import binary, content_of, image_of, records_of

state = {{b"%d" % i: b"value %d" % i for i in range(20_000)}}
image = image_of(state)
map_ = VersionedMap(image)
indexed = VersionedMap(Image.empty(row_checksums=False, indexed_offset=16))
large = binary([bytes(1 << 20)])
many = binary(b"%d" % i for i in range(100_000))
records = records_of([(b"%d" % i, bytes(1 << 20)) for i in range(8)], row_checksums=False)
wide = map_.transaction(0)
wide.put_many(large, large)
layer = wide.seal()

def put_large():
    transaction = map_.transaction(0)
    for i in range(1000):
        transaction.put(b"%d" % i, bytes(1 << 20))
        assert transaction.num_keys == len(state)

def put_and_keep():
    kept = []
    while True:
        kept.append(map_.transaction(0))
        kept[-1].put_many(many, many)

def get_many():
    transaction = map_.transaction(0)
    transaction.put(b"large", bytes(1 << 20))
    transaction.get_many(binary([b"large"] * 1000))

def scan():
    transaction = map_.transaction(0)
    kept = []
    for i in range(40):
        transaction.put(b"%d" % i, bytes(1 << 20))
    while True:
        kept += list(transaction.scan(1 << 24))

def build():
    builder = ImageBuilder(row_checksums=False)
    while True:
        builder.append(*records)

def add():
    while True:
        transaction = map_.transaction(0)
        transaction.put_many(many, binary([b""] * len(many)))
        map_.add(0, transaction.seal())

def due():
    transaction = indexed.transaction(0)
    transaction.put_many(many, binary([bytes(24)] * len(many)))
    layer = indexed.add(0, transaction.seal())
    kept = []
    while True:
        kept.append(indexed.transaction(layer))
        kept.append(list(kept[-1].due(1, 1 << 20)))

with open("/proc/self/statm") as statm:
    size = int(statm.read().split()[0]) * resource.getpagesize()
for work in (put_large, put_and_keep, get_many, scan, build, add, due):
    resource.setrlimit(resource.RLIMIT_AS, (size + {ROOM}, resource.RLIM_INFINITY))
    try:
        work()
    except MemoryError:
        print(work.__name__)
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    gc.collect()
    assert content_of(map_.transaction(0), 1 << 20) == state
    assert map_.transaction(map_.add(0, layer)).get(bytes(1 << 20)) == bytes(1 << 20)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="memory can be bounded on Linux")
def test_out_of_memory() -> None:
    done = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout.split() == ["put_large", "put_and_keep", "get_many", "scan", "build", "add", "due"]
