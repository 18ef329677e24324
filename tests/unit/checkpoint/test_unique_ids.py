"""Checkpoints in format version 2: real ones of Spark, their state files given ids, read the same as before."""

from __future__ import annotations

import json
import shutil
import uuid
from collections import Counter
from collections.abc import Collection
from pathlib import Path

import pytest

import hdfsstore
from hdfsstore.codecs.compression import compress, decompress
from hdfsstore.codecs.lineage import LineageItem, encode_header
from hdfsstore.state.versions.files import parse_name
from tests.support.rows import counted
from tests.support.truth import DATA

SPARK = DATA / "spark-4.3.0"
Ids = dict[tuple[str, int], str]


def stores_of(root: Path) -> dict[str, Path]:
    """The folders of the stores, by their path in the checkpoint, in the order of the operator's metadata."""
    metadata = json.loads((root / "state/0/_metadata/metadata").read_text().splitlines()[1])
    names = [store["storeName"] for store in metadata["stateStoreInfo"]]
    partitions = sorted(int(path.name) for path in (root / "state/0").glob("[0-9]*"))
    folders = [f"state/0/{p}" + ("" if name == "default" else f"/{name}") for p in partitions for name in names]
    return {folder: root / folder for folder in folders}


def give_ids(root: Path, versions: Collection[int]) -> Ids:
    """Renames the files of these versions, puts lineages into their deltas, and the ids into the commit logs."""
    ids: Ids = {}
    for name, folder in stores_of(root).items():
        for path in sorted(folder.iterdir()):
            parsed = parse_name(path.name)
            if parsed is None or parsed[0][0] not in versions:
                continue
            (version, _), kind = parsed
            unique_id = ids.setdefault((name, version), str(uuid.uuid4()))
            content = path.read_bytes()
            if kind == "delta":
                before = range(min(versions), version)
                lineage = [LineageItem(v, ids.setdefault((name, v), str(uuid.uuid4()))) for v in before]
                content = compress("lz4", encode_header(lineage) + decompress("lz4", content))
            path.unlink()
            (folder / f".{path.name}.crc").unlink(missing_ok=True)
            (folder / f"{version}_{unique_id}.{kind}").write_bytes(content)
    for version in versions:
        log = root / "commits" / str(version - 1)
        fields = json.loads(log.read_text().splitlines()[1])
        partitions: dict[str, list[str]] = {}
        for name in stores_of(root):
            partitions.setdefault(name.split("/")[2], []).append(ids[name, version])
        fields["stateUniqueIds"] = {"0": list(partitions.values())}
        log.write_text(f"v2\n{json.dumps(fields)}")
        log.with_name(f".{log.name}.crc").unlink(missing_ok=True)
    return ids


def everything(root: Path) -> list[Counter[object]]:
    checkpoint = hdfsstore.Checkpoint(root)
    last = checkpoint.latest_batch_id
    stores = [store.name for store in checkpoint.operator().stores]
    sides = ["left", "right"] if len(stores) > 1 else []
    tables = [checkpoint.read_state(0, store, batch_id) for store in stores for batch_id in range(last + 1)]
    tables += [checkpoint.open_state(0, store).read_all() for store in stores]
    tables += [checkpoint.read_changes(0, last, 0, store) for store in stores]
    tables += [checkpoint.read_state(0, batch_id=batch, join_side=side) for side in sides for batch in range(last + 1)]
    return [counted(table) for table in tables]


@pytest.fixture(params=["aggregation", "snapshots", "join_inner"])
def copy(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return Path(shutil.copytree(SPARK / request.param / "checkpoint", tmp_path / "checkpoint"))


def all_versions(root: Path) -> range:
    return range(1, hdfsstore.Checkpoint(root).latest_batch_id + 2)


def test_all_versions_with_ids(copy: Path) -> None:
    expected = everything(copy)
    assert sum(sum(rows.values()) for rows in expected) > 0
    give_ids(copy, all_versions(copy))
    assert everything(copy) == expected
    assert not list((copy / "state").rglob("1.delta"))


def test_versions_of_both_formats(tmp_path: Path) -> None:
    """From a snapshot of Spark's on with ids, and at the next one without again."""
    root = Path(shutil.copytree(SPARK / "snapshots/checkpoint", tmp_path / "checkpoint"))
    expected = everything(root)
    first, second = sorted(int(path.stem) for path in (root / "state/0/0").glob("*.snapshot"))[:2]
    for folder in stores_of(root).values():
        assert (folder / f"{first}.snapshot").exists()
        assert (folder / f"{second}.snapshot").exists()
    give_ids(root, range(first, second))
    for folder in stores_of(root).values():  # the deltas before it are not there in its format
        for path in (*folder.glob(f"{first}_*.delta"), folder / f"{second}.delta"):
            path.unlink()
    checkpoint = hdfsstore.Checkpoint(root)
    found = [counted(checkpoint.read_state(batch_id=batch)) for batch in range(checkpoint.latest_batch_id + 1)]
    assert found == expected[: len(found)]
    with pytest.raises(hdfsstore.BatchNotAvailableError, match="no delta of version"):
        checkpoint.read_changes(0, checkpoint.latest_batch_id)
    assert checkpoint.read_changes(first, second - 2).num_rows > 0


def test_files_of_an_attempt_that_was_not_chosen(copy: Path) -> None:
    expected = everything(copy)
    ids = give_ids(copy, all_versions(copy))
    for (name, version), unique_id in ids.items():
        delta = copy / name / f"{version}_{unique_id}.delta"
        for kind in ("delta", "snapshot"):
            (copy / name / f"{version}_{uuid.uuid4()}.{kind}").write_bytes(delta.read_bytes())
            (copy / name / f"{version}.{kind}").write_bytes(b"of another format")
    assert everything(copy) == expected


def test_logs_and_files_that_do_not_fit_together(copy: Path) -> None:
    last = hdfsstore.Checkpoint(copy).latest_batch_id
    store = hdfsstore.Checkpoint(copy).operator().stores[-1].name
    give_ids(copy, all_versions(copy))
    log = copy / "commits" / str(last)
    content = log.read_text()
    fields = json.loads(content.splitlines()[1])
    fields["stateUniqueIds"]["0"].pop()
    log.write_text(f"v2\n{json.dumps(fields)}")
    with pytest.raises(hdfsstore.CorruptFileError, match=f"commit log of batch {last} has no unique id"):
        hdfsstore.Checkpoint(copy).read_state(0, store)
    fields["stateUniqueIds"] = {}
    log.write_text(f"v2\n{json.dumps(fields)}")
    with pytest.raises(hdfsstore.BatchNotAvailableError, match="without a unique id"):
        hdfsstore.Checkpoint(copy).read_state(0, store)
    log.write_text(content)
    for path in copy.glob(f"state/0/0/**/{last + 1}_*.delta"):
        path.unlink()
    for path in copy.glob(f"state/0/0/**/{last + 1}_*.snapshot"):
        path.unlink()
    with pytest.raises(hdfsstore.BatchNotAvailableError, match=f"no state of version {last + 1}"):
        hdfsstore.Checkpoint(copy).read_state(0, store)
