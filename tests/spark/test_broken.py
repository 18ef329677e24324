"""docs/broken.md, case by case: a real query is broken, Spark says what the page says, and the page's commands mend it.

Each case begins with a copy of the checkpoint of one query, of which batches 0 to 3 are committed. In the end Spark
goes on, and the state is what the input says.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from hdfsstore import Checkpoint
from hdfsstore.checkpoint.conf import PROVIDER, ROCKSDB_PROVIDER
from hdfsstore.repair.backup import Backup
from hdfsstore.repair.edit import Edit
from hdfsstore.repair.verbs import edit, repartition
from tests.spark.support.broken import Case
from tests.spark.support.clicks import BATCHES, Clicks, by_two, users, with_longest
from tests.spark.support.own_checkpoint import CHANGELOGS
from tests.spark.support.repairs import configured

PAGE = Path(__file__).parents[2] / "docs/broken.md"
Test = Callable[[Case], None]
CASES: dict[str, Test] = {}
SECTIONS = dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL))


def case(heading: str) -> Callable[[Test], Test]:
    def register(test: Test) -> Test:
        CASES[heading] = test
        return test

    return register


def drop(path: Path) -> None:
    """Deletes a file and its checksum file."""
    path.unlink()
    path.with_name(f".{path.name}.crc").unlink()


def write_over(path: Path, content: bytes) -> None:
    """Changes a file, and deletes its checksum file."""
    drop(path)
    path.write_bytes(content)


@pytest.fixture(scope="module")
def clicks(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Clicks:
    made = Clicks(spark, tmp_path_factory.mktemp("clicks"))
    made.write(BATCHES)
    return made


@pytest.mark.parametrize("heading", SECTIONS)
def test_the_commands_mend_what_spark_complains_of(
    heading: str, clicks: Clicks, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    own = OWN_QUERIES.get(heading)
    tried = Case(SECTIONS[heading], own(spark, tmp_path) if own else clicks, tmp_path)
    CASES[heading](tried)
    tried.assert_whole()


def test_every_section_is_in_the_table_of_symptoms() -> None:
    table = PAGE.read_text("utf-8").partition("\n## ")[0]
    assert len(re.findall(r"^\| .*\]\(#", table, re.MULTILINE)) == len(SECTIONS) == len(CASES) >= 10


@case("A state file is missing or damaged")
def state_file(tried: Case) -> None:
    newest = tried.checkpoint / f"state/0/0/{BATCHES}.delta"
    for number, content in enumerate([None, newest.read_bytes()[:40]]):
        tried.fresh()
        drop(newest) if content is None else write_over(newest, content)
        tried.spark_says(number)
        assert re.search(rf"{newest}.*\(batches 3\)", tried.do(0, status=1))
        tried.do(1)
        tried.goes_on()
    tried.fresh()
    drop(newest.with_name("1.delta"))
    assert "(batches 0 to 3)" in tried.do(0, status=1)
    assert "Restore the file" in tried.do(1, status=1)


@case("A state file of RocksDB is missing or damaged")
def changelog(tried: Case) -> None:
    newest = tried.checkpoint / f"state/0/0/{BATCHES}.changelog"
    drop(newest)
    tried.spark_says(0)
    assert re.search(rf"{newest}.*\(batches 3\)", tried.do(0, status=1))
    tried.do(1)
    tried.goes_on()


@case("An entry of a log is empty")
def empty_entry(tried: Case) -> None:
    offsets, commits = tried.checkpoint / "offsets/3", tried.checkpoint / "commits/3"
    for entry, committed, message, command in (
        (commits, True, 1, 1),
        (offsets, False, 0, 2),
        (offsets, True, 0, 3),
    ):
        tried.fresh()
        if not committed:
            drop(commits)
        write_over(entry, b"")
        tried.spark_says(message)
        assert f"Damaged: {entry}, byte 0: the file is empty (batches 3)" in tried.do(0, status=1)
        tried.do(command)
        tried.goes_on()


@case("A repair has not ended")
def repair_under_way(tried: Case) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Backup, "note_written", killed)
        with pytest.raises(KeyboardInterrupt):
            repartition(tried.checkpoint, None, 10)
    tried.spark_says(0)
    assert "`repartition` is changing the checkpoint" in " ".join(tried.do(0).split())
    tried.do(1)
    tried.goes_on()


@case("The query is another one")
def other_schema(tried: Case) -> None:
    before = tried.state()
    for number, query in enumerate((with_longest, by_two, users)):
        tried.spark_says(number, query)
    assert "count int64, sum int64" in tried.do(0)
    tried.do(1)
    assert len(before) == len(Checkpoint(tried.checkpoint).read_state())
    assert (tried.folder / "rows.parquet").exists()
    tried.goes_on()


@case("The file `metadata` is gone")
def no_metadata(tried: Case) -> None:
    drop(tried.checkpoint / "metadata")
    tried.spark_says(0)
    assert "metadata: the checkpoint lacks this file" in tried.do(0, status=1)
    tried.do(1)
    tried.do(2)
    tried.goes_on()


@case("The state or the log of a source is gone")
def no_state(tried: Case) -> None:
    query_id = Checkpoint(tried.checkpoint).query_id
    tried.do(1)
    copy = tried.folder / "backup/checkpoint"
    for number, lost in enumerate(("state", "sources")):
        tried.fresh()
        shutil.rmtree(tried.checkpoint / lost)
        tried.spark_says(number)
        if lost == "state":
            assert "Sound: 4 batches, 0 state files" in tried.do(0)
        else:
            assert f"sources/0/{BATCHES - 1}: the entry of this offset is missing" in tried.do(0, status=1)
    tried.goes_on(checkpoint=copy)
    assert Checkpoint(copy).query_id == query_id
    assert Checkpoint(copy).latest_batch_id == BATCHES


@case("A checksum does not match after a copy")
def other_checksum(tried: Case) -> None:
    folder = tried.checkpoint / "state/0/0"
    shutil.copy(folder / ".3.delta.crc", folder / ".4.delta.crc")
    assert f"the checksum in {folder}/.4.delta.crc does not match" in tried.do(0, status=1)
    tried.do(1)
    tried.do(2)
    tried.goes_on()


@case("A batch was wrong")
def bad_batch(tried: Case) -> None:
    bad = tried.state()
    assert tried.do(0).count("changed") == BATCHES - 1
    assert "20 changed" in tried.do(1)
    tried.do(2)
    tried.clicks.write(BATCHES - 1)
    tried.goes_on()
    assert tried.state() != bad
    assert Checkpoint(tried.checkpoint).latest_batch_id == BATCHES - 1


@case("Some keys are wrong")
def wrong_keys(tried: Case) -> None:
    before, end = tried.state(), tried.clicks.totals()
    tried.do(0)
    tried.do(1)
    assert "0 added, 2 changed, 0 removed" in tried.do(2)
    lost = {user: (before[user][0] - before[user][0] // 2, before[user][1] - before[user][1] // 2) for user in before}
    mended = {user: (end[user][0] - lost[user][0], end[user][1] - lost[user][1]) for user in ("u03", "u07")}
    tried.goes_on(end | mended)


@case("Another number of partitions has no effect")
def partitions(tried: Case) -> None:
    folder = tried.checkpoint / "state/0"
    with configured(tried.clicks.spark, {"spark.sql.shuffle.partitions": "10"}):
        tried.goes_on()
    assert sorted(path.name for path in folder.iterdir()) == ["0", "1", "_metadata"]
    tried.fresh()
    assert re.search(r"spark\.sql\.shuffle\.partitions +2 *$", tried.do(0), re.MULTILINE)
    tried.do(1)
    tried.goes_on()
    assert Checkpoint(tried.checkpoint).operator().store().num_partitions == 10
    assert all((folder / f"{partition}/{BATCHES + 2}.delta").exists() for partition in range(10))


@case("The state does not fit in memory")
def other_provider(tried: Case) -> None:
    kinds = {path.suffix for path in (tried.checkpoint / "state/0/0").iterdir() if path.name[0].isdigit()}
    with configured(tried.clicks.spark, {PROVIDER: ROCKSDB_PROVIDER}):
        tried.goes_on()
    assert kinds == {".delta"}
    assert (tried.checkpoint / f"state/0/0/{BATCHES + 1}.delta").exists()
    tried.fresh()
    assert "HDFSBackedStateStoreProvider" in tried.do(0)
    tried.do(1)
    tried.goes_on()
    assert (tried.checkpoint / f"state/0/0/{BATCHES + 2}.zip").exists()


@case("A restart takes long")
def many_deltas(tried: Case) -> None:
    assert re.search(r"a restart reads +delta: 8 of", tried.do(0))
    tried.do(1)
    assert re.search(r"a restart reads +snapshot: 2 of", tried.do(2))
    tried.goes_on()


@case("hdfsstore refuses: a batch was begun")
def begun(tried: Case) -> None:
    with pytest.raises(PySparkException):
        tried.clicks.run(tried.checkpoint, with_longest)
    assert tried.message(0) in " ".join(tried.do(0, status=1).split())
    tried.do(1)
    tried.goes_on()


@case("The log of the file sink lacks a batch")
def no_entry_of_the_sink(tried: Case) -> None:
    """The batch that the edit added is number 4, and the next one compacts the sink's log."""
    spark = tried.clicks.spark
    with configured(spark, {"spark.sql.streaming.fileSink.log.compactInterval": "6"}):
        edit(tried.checkpoint, None, Edit(remove="key.user = 'u03'"))
        tried.clicks.write(BATCHES)
        tried.spark_says(0)
        tried.do(0)
        tried.do(1)
        tried.clicks.run(tried.checkpoint)
    rows = [row.user for row in spark.read.json(str(tried.folder / "data/out")).collect()]
    assert sorted(rows) == sorted([*tried.clicks.totals(), "u03"]), "u03 was forgotten, and came again"


@case("One partition is much larger than the others")
def huge_key(tried: Case) -> None:
    huge = max(tried.state(), key=len)
    assert len(huge) == 200_000
    tried.do(0)
    tried.do(1)
    assert (tried.folder / "report.html").stat().st_size > 10_000
    assert re.search(r"200[,_]?000 +x{20}\s", tried.do(2))
    tried.do(3)
    assert tried.state().keys() == tried.clicks.totals().keys() - {huge}
    tried.goes_on({user: totals for user, totals in tried.clicks.totals().items() if user != huge})


@case("The state grows without end")
def no_end(tried: Case) -> None:
    assert "batch 3" in tried.do(0)
    assert "3 added" in tried.do(1)
    assert re.search(r"watermark +none", tried.do(2))
    visitors = {user for user in tried.state() if user.startswith("visitor")}
    assert len(visitors) == BATCHES
    tried.do(3)
    tried.goes_on({user: totals for user, totals in tried.clicks.totals().items() if user not in visitors})


def with_a_bad_file(spark: SparkSession, folder: Path) -> Clicks:
    """The last file has milliseconds in the place of seconds."""
    made = Clicks(spark, folder / "own", BATCHES - 1)
    made.write(BATCHES - 1, times=1000)
    made.run(made.checkpoint)
    return made


def with_a_huge_key(spark: SparkSession, folder: Path) -> Clicks:
    return Clicks(spark, folder / "own", first_user="x" * 200_000)


def in_rocksdb(spark: SparkSession, folder: Path) -> Clicks:
    with configured(spark, {PROVIDER: ROCKSDB_PROVIDER, CHANGELOGS: "true"}):
        made = Clicks(spark, folder / "own")
    made.write(BATCHES)
    return made


def to_files(spark: SparkSession, folder: Path) -> Clicks:
    return Clicks(spark, folder / "own", query=users, sink=folder / "data/out")


OWN_QUERIES = {
    "A state file of RocksDB is missing or damaged": in_rocksdb,
    "The log of the file sink lacks a batch": to_files,
    "A batch was wrong": with_a_bad_file,
    "One partition is much larger than the others": with_a_huge_key,
}
