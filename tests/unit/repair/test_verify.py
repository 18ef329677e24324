"""verify: what Spark wrote is sound, and each kind of damage is found, with its file and the batches that it spoils."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from hdfsstore.checkpoint.guard import Guard, encode_guard
from hdfsstore.errors import PlacementError
from hdfsstore.repair.verbs import repartition
from hdfsstore.repair.verify import verify
from tests.support.truth import DATA, Case, cases, few_cases

NEWEST = DATA / "spark-4.3.0"
BY_HAND = "fewer_partitions_by_hand"
# Spark's own repartition moves the row of an operator without keys, which then begins anew in partition 0.
MOVED = "rocksdb_more_partitions_without_key"
STATE_FILES = [
    ("aggregation", "state/0/0/*.delta"),
    ("snapshots", "state/0/0/*.snapshot"),
    ("rocksdb_changelog_later", "state/0/0/*.changelog"),
    ("rocksdb_more_partitions", "state/0/0/*.zip"),
    ("rocksdb_more_partitions", "state/0/0/SSTs/*.sst"),
    ("rocksdb_fewer_partitions_unique_ids", "state/0/0/*.zip"),
    ("rocksdb_unique_ids", "state/0/0/*.changelog"),
]


def copy(name: str, tmp_path: Path) -> Path:
    return Path(shutil.copytree(NEWEST / name / "checkpoint", tmp_path / "checkpoint"))


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def newest(root: Path, pattern: str) -> Path:
    found = [path for path in root.glob(pattern) if not path.name.startswith(".")]
    return max(found, key=lambda path: (int(path.name.partition(".")[0].partition("_")[0]), str(path)))


def newest_named_sst(root: Path) -> Path:
    found = root.glob("state/0/0/SSTs/*.sst")
    return max(path for path in found if path.with_name(f".{path.name}.crc").exists())


@pytest.mark.parametrize(
    "case", few_cases([each for each in cases() if each.folder.name not in (BY_HAND, MOVED)]), ids=str
)
def test_what_spark_wrote_is_sound(case: Case) -> None:
    found = verify(case.checkpoint)
    assert found.findings == []
    assert found.sound
    assert verify(case.checkpoint, logs=True).batches == found.batches


@pytest.mark.parametrize("case", ["transform_structures", "transform_unique_ids", "rocksdb_join_format3"])
def test_a_store_with_column_families_is_not_sound_without_the_zip_that_numbers_them(case: str, tmp_path: Path) -> None:
    root = copy(case, tmp_path)
    for path in root.glob("state/0/0/*1*.zip*"):
        path.unlink()
    found = verify(root)
    [finding] = found.findings
    assert "column families whose numbers only a zip tells" in finding.message
    assert (finding.kind, finding.path) == ("MissingFileError", str(root / "state/0/0"))
    assert finding.batches == tuple(found.batches)
    assert not found.sound


@pytest.mark.parametrize("release", ["spark-3.5.9", "spark-4.1.4"])
def test_rows_that_a_change_by_hand_left_behind_are_found(release: str) -> None:
    [finding] = verify(DATA / release / BY_HAND / "checkpoint").findings
    assert finding.kind == "PlacementError"
    assert finding.batches == (2, 3)
    assert finding.path is not None
    assert finding.path.endswith("state/0/1/2.delta")


def test_a_row_without_keys_that_a_repartition_moved_is_found() -> None:
    root = NEWEST / MOVED / "checkpoint"
    [finding] = verify(root).findings
    assert (finding.kind, finding.path, finding.batches) == ("PlacementError", str(root / "state/0/2/4.zip"), (3,))
    assert verify(root, logs=True).sound


@pytest.mark.parametrize(
    ("damage", "name", "pattern"),
    [
        (damage, name, pattern)
        for damage in (flip, cut, Path.unlink)
        for name, pattern in STATE_FILES
        # A lost snapshot is none where older files give the same version.
        if damage is not Path.unlink or not pattern.endswith(("snapshot", "zip"))
    ],
)
def test_a_damaged_file_of_the_state_is_found(
    damage: Callable[[Path], None], name: str, pattern: str, tmp_path: Path
) -> None:
    root = copy(name, tmp_path)
    path = sorted(root.glob(pattern))[-1] if "SSTs" in pattern else newest(root, pattern)
    damage(path)
    findings = verify(root).findings
    assert findings
    assert all(finding.batches for finding in findings)
    assert any(path.name in (finding.path or "") for finding in findings), findings


@pytest.mark.parametrize("damage", [cut, Path.unlink], ids=lambda each: each.__name__)
@pytest.mark.parametrize("log", ["offsets", "commits"])
def test_a_damaged_entry_of_a_log_is_found(damage: Callable[[Path], None], log: str, tmp_path: Path) -> None:
    root = copy("aggregation", tmp_path)
    path = root / log / "1"
    damage(path)
    [finding] = verify(root, logs=True).findings
    assert (finding.path, finding.batches) == (str(path), (1,))


def test_a_commit_without_its_entry_of_offsets_is_found(tmp_path: Path) -> None:
    root = copy("aggregation", tmp_path)
    last = newest(root, "offsets/*")
    last.unlink()
    [finding] = verify(root, logs=True).findings
    assert (finding.path, finding.batches) == (str(last), (int(last.name),))


def test_commits_whose_offsets_are_all_gone_are_damage(tmp_path: Path) -> None:
    root = copy("aggregation", tmp_path)
    commits = [int(path.name) for path in (root / "commits").iterdir() if not path.name.startswith(".")]
    for path in (root / "offsets").iterdir():
        path.unlink()
    [finding] = verify(root, logs=True).findings
    assert (finding.path, finding.batches) == (str(root / f"offsets/{max(commits)}"), (max(commits),))


def test_a_lost_delta_is_one_finding_with_all_batches_that_need_it(tmp_path: Path) -> None:
    root = copy("aggregation", tmp_path)
    (root / "state/0/0/2.delta").unlink()
    found = verify(root, logs=True)
    [finding] = found.findings
    assert finding.path == str(root / "state/0/0/2.delta")
    assert finding.batches == tuple(found.batches[1:])


def test_a_lost_partition_and_a_lost_schema_are_found(tmp_path: Path) -> None:
    root = copy("aggregation", tmp_path)
    shutil.rmtree(root / "state/0/1")
    (root / "state/0/0/_metadata/schema").unlink()
    paths = [finding.path for finding in verify(root, logs=True).findings]
    assert paths == [str(root / "state/0/0/_metadata/schema"), str(root / "state/0/1")]


def test_lost_metadata_of_an_operator_with_column_families_is_found(tmp_path: Path) -> None:
    """Its state can be read by the schema files, and Spark does not start."""
    root = copy("rocksdb_join_format3", tmp_path)
    shutil.rmtree(root / "state/0/_metadata")
    found = verify(root)
    assert [(each.path, each.batches) for each in found.findings] == [
        (str(root / "state/0/_metadata"), tuple(found.batches))
    ]
    (note,) = found.notes
    assert "Restore state/0/_metadata" in note
    assert "--operator-kind" not in note
    with pytest.raises(PlacementError, match=r"Restore state/0/_metadata"):
        repartition(root, tmp_path / "new", 3, operator_kinds={0: "join"})


def test_a_stale_checksum_file_is_found(tmp_path: Path) -> None:
    root = copy("aggregation", tmp_path)
    folder = root / "state/0/0"
    shutil.copy(folder / ".1.delta.crc", folder / ".2.delta.crc")
    findings = verify(root).findings
    assert len(findings) == 1
    assert findings[0].batches[0] == 1


def test_a_stale_checksum_file_of_an_sst_is_found(tmp_path: Path) -> None:
    root = copy("rocksdb_more_partitions", tmp_path)
    sst = newest_named_sst(root)
    side = sst.with_name(f".{sst.name}.crc")
    side.write_bytes(side.read_bytes()[:-1] + b"?")
    [finding] = verify(root).findings
    assert (finding.kind, finding.path) == ("CorruptFileError", str(sst))
    assert finding.batches


def source_log(root: Path) -> Path:
    return root / "sources/0"


@pytest.mark.parametrize("damage", [flip, cut, Path.unlink], ids=lambda each: each.__name__)
@pytest.mark.parametrize(("name", "entry"), [("aggregation", "0"), ("aggregation", "3"), ("snapshots", "9.compact")])
def test_a_damaged_entry_of_a_file_source_is_found(
    damage: Callable[[Path], None], name: str, entry: str, tmp_path: Path
) -> None:
    root = copy(name, tmp_path)
    path = source_log(root) / entry
    damage(path)
    if damage is Path.unlink and path.suffix:  # the entries behind it begin with one that is gone
        for number in range(9):
            (source_log(root) / str(number)).unlink()
    findings = verify(root, logs=True).findings
    assert str(path).removesuffix(".compact") in [(each.path or "").removesuffix(".compact") for each in findings]
    assert all(each.batches == () and each.remedy for each in findings)


def test_without_its_checksum_file_an_entry_of_a_file_source_is_parsed(tmp_path: Path) -> None:
    root = copy("aggregation", tmp_path)
    entry = source_log(root) / "1"
    (source_log(root) / ".1.crc").unlink()
    whole = entry.read_bytes()
    without = b'v1\n{"path":"file:/a"}'
    for content, offset in [(b"", 0), (b"v", 0), (whole[:-1], len(whole) - 1), (without, 3)]:
        entry.write_bytes(content)
        [finding] = verify(root, logs=True).findings
        assert (finding.path, finding.offset) == (str(entry), offset)
        assert "Restore" in (finding.remedy or "")


def test_the_log_of_a_file_source_that_is_gone_is_found(tmp_path: Path) -> None:
    root = copy("snapshots", tmp_path)
    shutil.rmtree(root / "sources")
    findings = verify(root, logs=True).findings
    assert [each.path for each in findings][-1] == str(source_log(root) / "9")


def test_entries_that_a_compacted_one_has_are_not_missed(tmp_path: Path) -> None:
    root = copy("snapshots", tmp_path)
    for number in range(9):
        (source_log(root) / str(number)).unlink()
    assert verify(root, logs=True).sound


@pytest.mark.parametrize(
    ("offset", "content", "found"),
    [
        ('{"clicks":{"0":5}}', b'\0v1\n{"clicks":{"0":0}}', ""),
        ('{"clicks":{"0":5}}', b'\0v1\n{"clicks":{"0":', "Kafka"),
        ('{"clicks":{"0":5}}', b"", "Kafka"),
        ("7", b"v1\n1700000000000", ""),
        ("7", b"", "empty"),
        ('{"sequence":7}', b"what only its author knows", "not known"),
    ],
)
def test_what_other_sources_note_is_checked_as_far_as_it_is_known(
    offset: str, content: bytes, found: str, tmp_path: Path
) -> None:
    root = copy("aggregation", tmp_path)
    for side in (*root.glob("offsets/.*.crc"), *source_log(root).iterdir()):
        side.unlink()
    for entry in (root / "offsets").iterdir():
        head, _, _ = entry.read_text().rpartition("\n")
        entry.write_text(f"{head}\n{offset}")
    (source_log(root) / "0").write_bytes(content)
    ended = verify(root, logs=True)
    texts = [str(each) for each in ended.findings] or ended.notes
    assert ended.sound == (found in ("", "not known"))
    assert [found in text for text in texts] == [True] * bool(found)


def test_a_batch_that_was_begun_a_stale_folder_and_an_orphan_are_no_damage(tmp_path: Path) -> None:
    root = copy("aggregation", tmp_path)
    last = newest(root, "commits/*")
    last.unlink()
    shutil.copytree(root / "state/0/1", root / "state/0/7")
    flip(root / "state/0/7/1.delta")
    (root / "state/0/0/.leftover.tmp").write_bytes(b"x")
    found = verify(root)
    assert found.sound
    assert [f"Batch {last.name} was begun" in note for note in found.notes] == [True]


def test_a_repair_that_is_under_way_is_no_damage(tmp_path: Path) -> None:
    root = copy("aggregation", tmp_path)
    sound = verify(root)
    guard = Guard("repartition", "20261122T231501.123Z", "c0ffee")
    (root / f"offsets/{sound.batches[-1] + 1}").write_bytes(encode_guard(guard))
    found = verify(root)
    assert (found.findings, found.batches, found.rows) == ([], sound.batches, sound.rows)
    (note,) = found.notes
    assert "`repartition` is changing the checkpoint" in note
    assert "hdfsstore undo" in note


@pytest.mark.parametrize(
    ("name", "spoilt"), [("rocksdb_aggregation", (3,)), ("rocksdb_fewer_partitions_unique_ids", (2, 3, 4))]
)
def test_a_lost_zip_spoils_all_batches_that_begin_with_it(name: str, spoilt: tuple[int, ...], tmp_path: Path) -> None:
    root = copy(name, tmp_path)
    newest(root, "state/0/0/*.zip").unlink()
    found = verify(root, logs=True)
    assert [finding.batches for finding in found.findings] == [spoilt]


def test_a_lost_snapshot_is_no_damage_where_the_deltas_give_the_version(tmp_path: Path) -> None:
    root = copy("snapshots", tmp_path)
    newest(root, "state/0/0/*.snapshot").unlink()
    assert verify(root).sound
