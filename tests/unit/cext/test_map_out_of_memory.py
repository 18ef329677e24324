"""What happens when memory is out: MemoryError, and everything from before still there."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

ROOM = 96 << 20

CHILD = f"""
import gc
import resource
import pyarrow as pa
from hdfsstore._cext.versioned_map import Image, ImageBuilder, VersionedMap
from tests.support.maps import binary, content_of, image_of, records_of

state = {{b"%d" % i: b"value %d" % i for i in range(20_000)}}
image = image_of(state)
map_ = VersionedMap(image)
indexed = VersionedMap(Image.empty(row_checksums=False, timeout_offset=16))
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

def expired():
    transaction = indexed.transaction(0)
    transaction.put_many(many, binary([bytes(24)] * len(many)))
    layer = indexed.add(0, transaction.seal())
    kept = []
    while True:
        kept.append(indexed.transaction(layer))
        kept.append(list(kept[-1].expired(1, 1 << 20)))

with open("/proc/self/statm") as statm:
    size = int(statm.read().split()[0]) * resource.getpagesize()
for work in (put_large, put_and_keep, get_many, scan, build, add, expired):
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

# A key whose prefix takes more memory than its entry in a table: (string, long), the first of which is the prefix.
WIDE_PREFIX = """
import resource
import struct
from hdfsstore._cext.versioned_map import Image, Merger, VersionedMap

SIZE = 32 << 20
text = bytes(SIZE)
key = struct.pack("<qqq", 0, 24 << 32 | SIZE, 7) + text
prefix = struct.pack("<qq", 0, 16 << 32 | SIZE) + text
plan = (2, b"\\1")
map_ = VersionedMap(Image.empty(row_checksums=False, prefix=plan))
other = VersionedMap(Image.empty(row_checksums=False)).transaction(0)
other.put(key, b"v")
layer = other.seal()
transaction = map_.transaction(0)
merger = Merger(Image.empty(row_checksums=False), [layer], prefix=plan)

def fails_in(room, work):
    with open("/proc/self/statm") as statm:
        size = int(statm.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + room, resource.RLIM_INFINITY))
    try:
        work()
    except MemoryError:
        print(work.__name__)
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

def add():
    map_.add(0, layer)

def put():
    transaction.put(key, b"v")

def build():
    while merger.build():
        pass

fails_in(SIZE // 2, add)
assert [len(keys) for keys in map_.transaction(map_.add(0, layer)).prefix_scan(prefix)] == [1, 1]

fails_in(SIZE * 3 // 2, put)
assert transaction.get(key) is None
transaction.put(key, b"v")
assert [len(keys) for keys in transaction.prefix_scan(prefix)] == [1, 1]

fails_in(SIZE * 3 // 2, build)
for work in (merger.build, merger.read, merger.finish):
    fails_in(8 * SIZE, work)
"""


def printed_by(script: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.skipif(not os.environ.get("CI") and sys.platform != "linux", reason="memory can be bounded on Linux")
def test_a_key_whose_prefix_there_was_no_memory_for_is_found_when_it_is_put_again() -> None:
    assert printed_by(WIDE_PREFIX) == ["add", "put", "build", "build", "read", "finish"]


@pytest.mark.skipif(not os.environ.get("CI") and sys.platform != "linux", reason="memory can be bounded on Linux")
def test_out_of_memory() -> None:
    assert printed_by(CHILD) == ["put_large", "put_and_keep", "get_many", "scan", "build", "add", "expired"]
