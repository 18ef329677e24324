"""Images of rows, made and read by hand, and what tests of the cache of images share."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import textwrap
from array import array
from pathlib import Path

import pyarrow as pa
import pytest

from hdfsstore._cext.versioned_map import Image, ImageBuilder
from hdfsstore.state.local.eviction import IN_USE
from hdfsstore.state.local.folder import open_folder, open_root
from hdfsstore.state.local.image_cache import StoreImages
from hdfsstore.state.local.locks import FileLock
from hdfsstore.state.store_id import StateStoreId

ROOT = Path(__file__).parents[2]
STORE = StateStoreId("file:///checkpoint/state", 0, 3)
OTHER = StateStoreId("file:///checkpoint/state", 0, 4)
ID, ID2 = "6a2f4c1e-0000-4000-8000-000000000001", "6a2f4c1e-0000-4000-8000-000000000002"
GIB = 1 << 30
NOBODY = 65534

needs_smaps = pytest.mark.skipif(
    not os.environ.get("CI") and not Path("/proc/self/smaps").exists(),
    reason="only Linux tells what of a mapping is in memory",
)

Rows = dict[bytes, bytes]


def image_of(rows: Rows) -> Image:
    """An image in memory of the rows."""
    data, keys, values = bytearray(), array("i"), array("i")
    for key, value in rows.items():
        for part, spans in ((key, keys), (value, values)):
            data += struct.pack(">i", len(part))
            spans.extend((len(data), len(part)))
            data += part
    builder = ImageBuilder(row_checksums=False)
    builder.append(memoryview(data), pa.py_buffer(keys), pa.py_buffer(values))
    return builder.finish()


def rows_of(image: Image) -> Rows:
    """The rows of an image, each of its blocks verified."""
    content, block = bytearray(), bytearray(5000)
    while n := image.readinto(block, len(content)):
        content += block[:n]
    parts: list[bytes] = []
    at = 0
    while (size := struct.unpack_from(">i", content, at)[0]) >= 0:
        parts.append(bytes(content[at + 4 : at + 4 + size]))
        at += 4 + size
    return dict(zip(parts[::2], parts[1::2], strict=True))


def rows(count: int, tag: str = "") -> Rows:
    """So many rows, others for each tag."""
    return {b"key %d" % i: b"value %d %s" % (i, tag.encode()) for i in range(count)}


def in_use(local_dir: Path, store: StateStoreId = STORE) -> bool:
    with open_root(str(local_dir)) as root, open_folder(root, folder_of(local_dir, store).name) as folder:
        lock = FileLock.alone(folder, IN_USE)
        if lock is not None:
            lock.close()
        return lock is None


def folder_of(local_dir: Path, store: StateStoreId = STORE) -> Path:
    """The folder that says it is the store's."""
    named = {path.parent: json.loads(path.read_text()) for path in local_dir.glob("*/store.json")}
    [folder] = [
        path
        for path, fields in named.items()
        if (fields["partition_id"], fields["store_name"]) == (store.partition_id, store.store_name)
    ]
    return folder


def resident(local_dir: Path, process: int | str = "self") -> dict[str, int]:
    """The images that a process has mapped, by name, and how much of them it has in memory, in KiB. Linux only."""
    found: dict[str, int] = {}
    name = ""
    for line in Path(f"/proc/{process}/smaps").read_text().splitlines():
        if not line[0].isupper():
            name = Path(line).name if str(local_dir) in line else ""
        elif name and line.startswith("Rss:"):
            found[name] = int(line.split()[1])
    return found


def files(local_dir: Path) -> set[str]:
    """The names of all images, locks of builders and temporary files."""
    return {path.name for path in local_dir.glob("*/*") if path.name not in ("store.json", IN_USE)}


def write(images: StoreImages, version: int, unique_id: str | None = ID, count: int = 100) -> Image:
    written = images.write(version, unique_id, image_of(rows(count, f"{version}")), {"query": "q"})
    assert written is not None
    return written


def find(images: StoreImages, version: int, unique_id: str | None = ID) -> Image | None:
    found = images.newest([(version, unique_id)])
    return found and found[0]


def start(code: str, *args: object, **environment: str) -> subprocess.Popen[str]:
    """A Python process of its own, which runs the code with `store(local_dir)` and what makes images at hand."""
    names = "\n".join(
        (
            "import logging, os, sys, time",
            "from hdfsstore.state.local import image_file",
            "from hdfsstore.state.local.image_cache import ImageCache",
            "from hdfsstore.state.store_id import StateStoreId",
            "from tests.support.images import image_of, rows, rows_of",
            "def store(local_dir, partition=3):",
            "    return ImageCache(local_dir, 1 << 30).store(StateStoreId('file:///checkpoint/state', 0, partition))",
        )
    )
    return subprocess.Popen(
        [sys.executable, "-c", f"{names}\n{textwrap.dedent(code)}", *map(str, args)],
        cwd=ROOT,
        env=os.environ | environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def said(process: subprocess.Popen[str], given: str = "") -> tuple[str, str]:
    """What the process writes on its outputs until it ends well."""
    out, err = process.communicate(given)
    assert process.returncode == 0, err
    return out, err


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()
