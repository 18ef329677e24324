"""The compressed streams that real Sparks wrote: every delta, snapshot and changelog of tests/data, to the end."""

import json
from pathlib import Path

import pytest

from hdfsstore.codecs.compression import CODECS, compress, decompress

DATA = Path(__file__).parents[2] / "data"
CHECKPOINTS = sorted(DATA.glob("spark-*/*/checkpoint"))
CODEC_CONF = "spark.sql.streaming.stateStore.compression.codec"


def codec_of(checkpoint: Path) -> str:
    """The codec that the offset log pins; lz4 where its Spark was too old to say so."""
    logs = sorted(checkpoint.glob("offsets/[0-9]*"))
    return json.loads(logs[0].read_text().splitlines()[1]).get("conf", {}).get(CODEC_CONF, "lz4")


def test_there_are_files_of_each_codec():
    assert {codec_of(checkpoint) for checkpoint in CHECKPOINTS} == set(CODECS)


@pytest.mark.parametrize("checkpoint", CHECKPOINTS, ids=lambda path: f"{path.parts[-3]}-{path.parts[-2]}")
def test_every_state_file_decompresses_to_its_end_mark(checkpoint):
    codec = codec_of(checkpoint)
    for kind in ("delta", "snapshot", "changelog"):
        for file in checkpoint.rglob(f"state/*/*/**/*.{kind}"):
            content = decompress(codec, file.read_bytes(), path=str(file))
            # The end mark: int32 -1 of deltas and snapshots, the type byte 0 of changelog version 2.
            assert content.endswith((b"\xff\xff\xff\xff", b"\0") if kind == "changelog" else b"\xff\xff\xff\xff"), file
            again = compress(codec, content)
            assert decompress(codec, again) == content
            # snappy-java and compress-lzf find other matches than the libraries that write here.
            assert codec not in ("lz4", "zstd") or again == file.read_bytes(), file
