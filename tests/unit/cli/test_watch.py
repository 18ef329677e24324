"""`hdfsstore watch`, on a terminal and without one."""

from __future__ import annotations

import io
import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from hdfsstore import Checkpoint
from hdfsstore.cli.watch_screen import screen
from hdfsstore.report.watched import Moment, Watched
from tests.support.checkpoints import Replayed, of_many_partitions
from tests.support.pseudo_terminal import OnATerminal
from tests.unit.cli.conftest import Run, checkpoint


@pytest.fixture
def query(tmp_path: Path) -> Replayed:
    """The checkpoint of a query whose first two batches are committed."""
    made = Replayed(checkpoint("snapshots"), tmp_path / "checkpoint")
    made.commit(0, 1)
    return made


@pytest.fixture(scope="module")
def of_400(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return of_many_partitions(tmp_path_factory.mktemp("wide"), 400)


@pytest.fixture(scope="module")
def moments(of_400: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Moment | None]:
    paths = {case: checkpoint(case) for case in ("join_inner", "rocksdb_join_left_outer")}
    paths["wide"] = of_400
    paths["waiting"] = Replayed(checkpoint("snapshots"), tmp_path_factory.mktemp("waiting") / "checkpoint").path
    return {"nothing yet": None, **{case: seen(path) for case, path in paths.items()}}


def seen(path: Path) -> Moment:
    watched = Watched(lambda: Checkpoint(path))
    watched.look()
    return watched.count(limited=False)


def watching(path: Path, *arguments: str, **more: object) -> OnATerminal:
    return OnATerminal("watch", str(path), "--interval", "0.1", *arguments, **more)  # type: ignore[arg-type]


def drawn(moment: Moment | None, columns: int, lines: int) -> list[str]:
    console = Console(file=io.StringIO(), width=columns, height=lines)
    now_ms = moment.batches[-1].time_ms + 5000 if moment and moment.batches else 0
    with console.capture() as capture:
        console.print(screen(moment, console.size, now_ms, "q ends"))
    return capture.get().splitlines()


def test_it_follows_the_query_and_ends_on_q(query: Replayed) -> None:
    with watching(query.path, NO_COLOR="1") as terminal:
        terminal.wait_for("batch       1 committed")
        query.begin(2)
        terminal.wait_for("2 began")
        query.commit(2)
        terminal.wait_for("batch       2 committed")
        terminal.wait_for("+")  # the growth of the rows
        assert "\x1b[3" not in terminal.shown  # no colour
        assert max(map(len, terminal.screen())) <= 80
        terminal.type("x")
        terminal.wait_for("committed")
        terminal.type("q")
        assert terminal.ended() == 0
        assert terminal.is_restored


@pytest.mark.parametrize(
    ("end", "status"),
    [
        (lambda terminal, _: terminal.type("\x03"), 130),
        (lambda terminal, _: terminal.process.send_signal(signal.SIGTERM), 143),
        (lambda _, query: shutil.rmtree(query.path), 1),
    ],
    ids=["ctrl-c", "sigterm", "error"],
)
def test_the_terminal_is_restored(query: Replayed, end: Callable[[OnATerminal, Replayed], None], status: int) -> None:
    with watching(query.path) as terminal:
        terminal.wait_for("1 committed")
        end(terminal, query)
        assert terminal.ended() == status
        assert terminal.is_restored
        assert "Traceback" not in terminal.shown
        if status == 1:
            assert "there is no checkpoint here" in terminal.shown


def test_it_ends_after_so_many_batches(query: Replayed) -> None:
    with watching(query.path, "--count", "2") as terminal:
        terminal.wait_for("1 committed")
        query.commit(2)
        assert terminal.ended() == 0
        assert terminal.is_restored


@pytest.mark.thorough
def test_another_size_meanwhile(of_400: Path) -> None:
    with watching(of_400) as terminal:
        terminal.wait_for("others: ")
        terminal.wait_until(lambda: any("others: " in line for line in terminal.screen()))
        assert len(terminal.screen()) <= 24
        terminal.resize(40, 10)
        terminal.wait_until(lambda: len(terminal.screen()) <= 10 and max(map(len, terminal.screen())) <= 40)
        assert "q ends" in terminal.screen()[-1]
        terminal.type("q")
        assert terminal.ended() == 0


@pytest.mark.parametrize(("columns", "lines"), [(80, 24), (40, 10), (200, 60), (24, 5)])
@pytest.mark.parametrize("case", ["wide", "join_inner", "rocksdb_join_left_outer", "waiting", "nothing yet"])
def test_all_that_fits(case: str, columns: int, lines: int, moments: dict[str, Moment | None]) -> None:
    moment = moments[case]
    shown = drawn(moment, columns, lines)
    assert len(shown) <= lines
    assert all(len(line) <= columns for line in shown)
    if case == "waiting" and lines > 5:
        assert any("waiting" in line for line in shown)
    if case == "wide" and lines >= 24:
        assert moment is not None
        [store] = moment.stores
        bars = [int(line.split()[0]) for line in shown if "█" in line]
        assert f"400 partitions of default, the {len(bars)} with the most rows" in "\n".join(shown)
        rows = {partition.partition_id: partition.rows or 0 for partition in store.partitions}
        others = sum(count for number, count in rows.items() if number not in bars)
        assert f"the {400 - len(bars)} others: {others:,} rows" in "\n".join(shown)
        assert min(rows[number] for number in bars) >= max(rows[n] for n in rows if n not in bars)


def test_text_of_a_checkpoint_does_not_control_the_terminal(tmp_path: Path) -> None:
    query = Replayed(checkpoint("aggregation"), tmp_path / "\x1b[31m")
    query.commit(0)
    assert not any("\x1b[31m" in line for line in drawn(seen(query.path), 200, 24))


def test_lines_where_there_is_no_terminal(query: Replayed, run: Run) -> None:
    ran = run("watch", query.path, "--count", 1)
    [line] = ran.out.splitlines()
    rows = Checkpoint(query.path).read_state().num_rows
    assert " batch 1; " in line
    assert f"; operator 0 default: {rows:,} rows, " in line
    assert "rows" not in run("watch", query.path, "--count", 1, "--no-rows").out


def test_one_line_a_batch(query: Replayed) -> None:
    query.begin(2)
    command = [sys.executable, "-m", "hdfsstore", "watch", str(query.path), "--json", "--interval", "0.1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = [json.loads(process.stdout.readline())]
        query.commit(2)
        lines.append(json.loads(process.stdout.readline()))
        query.commit(3)
        lines.append(json.loads(process.stdout.readline()))
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    assert [line["batch_id"] for line in lines] == [1, 2, 3]
    assert [line["stores"][0]["rows"] for line in lines] == [
        Checkpoint(query.path).read_state(batch_id=batch_id).num_rows for batch_id in (1, 2, 3)
    ]


def test_it_ends_when_nobody_reads_its_lines_any_more(query: Replayed) -> None:
    command = [sys.executable, "-m", "hdfsstore", "watch", str(query.path), "--interval", "0.1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert " batch 1; " in process.stdout.readline()
        process.stdout.close()  # no further batch comes
        try:
            assert process.wait(60) == 1
        finally:
            process.kill()
        assert process.stderr.read() == ""


def test_batches_that_ended_between_two_looks_have_lines_too(query: Replayed) -> None:
    command = [sys.executable, "-m", "hdfsstore", "watch", str(query.path), "--json", "--interval", "0.1"]
    with subprocess.Popen([*command, "--count", "5"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        query.commit(2, 3, 4, 5)
        lines = [json.loads(line) for line in process.stdout]
    assert [line["batch_id"] for line in lines] == [2, 3, 4, 5]
    assert lines[-1]["stores"] is not None


@pytest.mark.parametrize("closed", ["<&-", ">&-"])
def test_without_stdin_or_stdout(closed: str, query: Replayed) -> None:
    with watching(query.path, "--count", "1", redirected=closed) as terminal:
        assert terminal.ended() == 0, terminal.shown
        assert terminal.is_restored
        assert "Traceback" not in terminal.shown


def test_it_says_that_it_waits(tmp_path: Path) -> None:
    query = Replayed(checkpoint("aggregation"), tmp_path / "checkpoint")
    command = [sys.executable, "-m", "hdfsstore", "watch", str(query.path), "--count", "1", "--interval", "0.1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "Waiting for the first batch to be committed.\n"
        query.commit(0)
        out, err = process.communicate(timeout=60)
    assert (out.count("\n"), " batch 0; " in out, err) == (1, True, "")


def test_there_is_no_checkpoint(run: Run, tmp_path: Path) -> None:
    assert "there is no checkpoint here" in run("watch", tmp_path, exit_code=1).err
