"""docs/broken.md, case by case: a real query is broken, Spark says what the page says, and the page's commands mend it.

Each case begins with a copy of the checkpoint of one query, of which batches 0 to 3 are committed. In the end Spark
goes on, and the state is what the input says.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from typer.testing import CliRunner

from hdfsstore import Checkpoint
from hdfsstore.checkpoint.conf import PROVIDER, ROCKSDB_PROVIDER
from hdfsstore.cli.app import app
from hdfsstore.repair.backup import Backup
from hdfsstore.repair.verbs import repartition
from tests.spark.support.repairs import configured

PAGE = Path(__file__).parents[2] / "docs/broken.md"
FENCED = re.compile(r"^```\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BATCHES = 4
Totals = dict[str, tuple[int, int]]


class Clicks:
    """A query that counts clicks of users and adds their seconds, and the files that it reads, one a batch."""

    def __init__(self, spark: SparkSession, folder: Path, files: int = BATCHES, first_user: str = "u00") -> None:
        self.spark = spark
        self._first_user = first_user
        self._input = folder / "input"
        self._input.mkdir(parents=True)
        self.checkpoint = folder / "checkpoint"
        for number in range(files):
            self.write(number)
        self.run(self.checkpoint)

    def write(self, number: int, times: int = 1) -> None:
        """Writes a file: each user has a click, and a visitor comes who never comes again."""
        users = [self._first_user, *(f"u{user:02}" for user in range(1, 20)), f"visitor {number}"]
        rows = [{"user": user, "seconds": times * (10 * number + i)} for i, user in enumerate(users)]
        (self._input / f"{number:03}.json").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")

    def totals(self) -> Totals:
        """What the files say: the number of clicks of each user, and their seconds."""
        counts: Counter[str] = Counter()
        seconds: Counter[str] = Counter()
        for file in self._input.iterdir():
            for row in map(json.loads, file.read_text("utf-8").splitlines()):
                counts[row["user"]] += 1
                seconds[row["user"]] += row["seconds"]
        return {user: (counts[user], seconds[user]) for user in counts}

    def run(self, checkpoint: Path, *, longest: bool = False) -> None:
        """Starts the query, and waits until there is no input left. With `longest` it has one more aggregate."""
        aggregates = [F.count("*"), F.sum("seconds"), *([F.max("seconds")] if longest else [])]
        clicks = self.spark.readStream.schema("user string, seconds long").option("maxFilesPerTrigger", 1)
        totals = clicks.json(str(self._input)).groupBy("user").agg(*aggregates)
        writer = totals.writeStream.format("noop").outputMode("update").option("checkpointLocation", str(checkpoint))
        writer.trigger(availableNow=True).start().awaitTermination()


class Case:
    """A section of the page, and a copy of the query's checkpoint at `/data/checkpoint`."""

    def __init__(self, section: str, clicks: Clicks, folder: Path) -> None:
        self.clicks = clicks
        self.folder = folder
        self.checkpoint = folder / "data/checkpoint"
        self._messages = FENCED.findall(section)
        self._commands = re.findall(r"^    (\S.*)$", FENCED.sub("", section), re.MULTILINE)
        self._ran: set[str] = set()
        self.fresh()

    def fresh(self) -> None:
        """Puts the checkpoint back as the query has left it."""
        shutil.rmtree(self.folder / "data", ignore_errors=True)
        shutil.copytree(self.clicks.checkpoint, self.checkpoint)

    def spark_says(self, number: int, *, longest: bool = False) -> None:
        """Starts the query, which ends with this message of the section."""
        with pytest.raises(PySparkException) as raised:
            self.clicks.run(self.checkpoint, longest=longest)
        message = self._at_home(" ".join(self._messages[number].split()))
        pattern = ".*".join(map(re.escape, message.split("...")))
        assert re.search(pattern, " ".join(str(raised.value).split())), str(raised.value)
        self._ran.add(self._messages[number])

    def do(self, number: int, status: int = 0) -> str:
        """Runs this command of the section, which ends with this status. Returns what it prints."""
        command = self._commands[number]
        self._ran.add(command)
        words = shlex.split(self._at_home(command))
        if words[0] != "hdfsstore":
            done = subprocess.run(["sh", "-c", self._at_home(command)], text=True, capture_output=True)
            assert done.returncode == status, done.stderr
            return done.stdout
        result = CliRunner().invoke(app, words[1:], prog_name="hdfsstore")
        assert result.exit_code == status, result.output
        return result.output

    def goes_on(self, expected: Totals | None = None, checkpoint: Path | None = None) -> None:
        """Starts the query, which reads what is left of the input. The state is then what the files say, or this."""
        self.clicks.run(checkpoint or self.checkpoint)
        assert self.state(checkpoint) == (expected or self.clicks.totals())

    def state(self, checkpoint: Path | None = None) -> Totals:
        rows = Checkpoint(checkpoint or self.checkpoint).read_state().to_pylist()
        found = {row["key"]["user"]: (row["value"]["count"], row["value"]["sum"]) for row in rows}
        assert len(found) == len(rows), "a key is in two partitions"
        return found

    def assert_whole(self) -> None:
        """Nothing of the section was left out."""
        assert {*self._messages, *self._commands} == self._ran

    def _at_home(self, text: str) -> str:
        return re.sub(r"/(?=(data|backup)/)", f"{self.folder}/", text)


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
    assert "(batches 0-3)" in tried.do(0, status=1)
    assert "Restore the file" in tried.do(1, status=1)


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
    tried.spark_says(0, longest=True)
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


@case("The state is gone")
def no_state(tried: Case) -> None:
    query_id = Checkpoint(tried.checkpoint).query_id
    tried.do(0)
    shutil.rmtree(tried.checkpoint / "state")
    tried.spark_says(0)
    copy = tried.folder / "backup/checkpoint"
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


OWN_QUERIES = {
    "A batch was wrong": with_a_bad_file,
    "One partition is much larger than the others": with_a_huge_key,
}
