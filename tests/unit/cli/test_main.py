import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from hdfsstore.cli.app import app
from tests.unit.cli.conftest import Run, checkpoint

PAGE = Path(__file__).parents[3] / "docs/cli.md"


def hdfsstore(*arguments: object, code: str | None = None) -> subprocess.CompletedProcess[str]:
    command = ["-m", "hdfsstore"] if code is None else ["-c", code]
    return subprocess.run([sys.executable, *command, *map(str, arguments)], capture_output=True, text=True, check=False)


def test_help_names_the_commands(run: Run) -> None:
    out = run("--help").out
    names = (
        "inspect",
        "read",
        "sql",
        "history",
        "diff",
        "fork",
        "repartition",
        "convert",
        "edit",
        "rewrite",
        "rewind",
        "undo",
        "verify",
    )
    assert [name for name in names if f"\n  {name} " not in out] == []


def test_the_page_names_every_option_of_each_command() -> None:
    page = PAGE.read_text("utf-8")
    group = get_command(app)
    assert isinstance(group, TyperGroup)
    commands = {name: command.params for name, command in group.commands.items()}
    named = {name: set() for name in commands}
    for options, of in re.findall(r"^\| (`-.*?) \| ([\w, ]+) \|", page, re.MULTILINE):
        every, _, left_out = of.partition(" but ")
        for name in commands.keys() - {left_out} if every == "all" else of.split(", "):
            named[name] |= set(re.findall(r"`(-[\w-]+)", options))
    for name, params in commands.items():
        options = [{*param.opts, *param.secondary_opts} for param in params if param.opts[0].startswith("-")]
        assert named[name] <= set().union(*options), name
        assert all(named[name] & names for names in options), name


@pytest.mark.parametrize(
    ("arguments", "exit_code", "out", "err"),
    [
        (["read", checkpoint("aggregation"), "--json", "--limit", "1"], 0, '{"key":', ""),
        (["read", checkpoint("nothing")], 1, "", "Error: "),
        (["read"], 2, "", "PATH"),
        (["what"], 2, "", "what"),
        (
            ["migrate", checkpoint("aggregation"), "--like", "new"],
            2,
            "",
            "start the changed query with a new checkpoint, from",
        ),
        (["bootstrap", "new"], 2, "", "State cannot be made without a query"),
        (["remap", checkpoint("aggregation")], 2, "", "Operators cannot get other numbers"),
    ],
)
def test_as_a_process(arguments: list[object], exit_code: int, out: str, err: str) -> None:
    ran = hdfsstore(*arguments)
    assert ran.returncode == exit_code
    assert ran.stdout.startswith(out)
    assert err in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_says_which_extra_brings_the_command(missing: str) -> None:
    ran = hdfsstore(code=f"import sys; sys.modules['{missing}'] = None; from hdfsstore.cli import main; main()")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == f"The command needs {missing}: pip install 'hdfsstore[cli]'\n"


def test_a_reader_of_the_pipe_that_goes_is_no_error() -> None:
    command = f"{sys.executable} -m hdfsstore read {checkpoint('aggregation')} --json | head -c 1"
    ran = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert (ran.stdout, ran.stderr.count("Traceback")) == ("{", 0)


def test_version() -> None:
    for option in ("--version", "-V"):
        ran = hdfsstore(option)
        assert (ran.returncode, ran.stdout) == (0, f"hdfsstore {version('hdfsstore')}\n")


def test_h_is_help_of_every_command(run: Run) -> None:
    assert run("-h").out == run("--help").out
    group = get_command(app)
    assert isinstance(group, TyperGroup)
    for name in group.commands:
        assert run(name, "-h").out == run(name, "--help").out != ""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completes_commands_in_a_shell(shell: str) -> None:
    environment = {
        **os.environ,
        "_HDFSSTORE_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": "hdfsstore in",
        "COMP_CWORD": "1",
        "_TYPER_COMPLETE_ARGS": "hdfsstore in",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    command = [sys.executable, "-c", "from hdfsstore.cli import main; main()"]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert "inspect" in ran.stdout
    assert "history" not in ran.stdout


def page(heading: str) -> str:
    return PAGE.read_text("utf-8").split(f"\n### {heading}\n")[1].split("\n#")[0]


def test_exit_statuses_are_those_of_the_page(run: Run) -> None:
    there = checkpoint("aggregation")
    assert set(re.findall(r"^\| (\d+) \|", page("Exit statuses"), re.MULTILINE)) == {"0", "1", "2", "130", "143"}
    run("read", there, "--where", "value.count > 1000000", exit_code=0)
    run("history", there, "--key", '{"k": "nobody"}', exit_code=0)
    run("read", checkpoint("nothing"), exit_code=1)
    run("read", there, "--batch", 77, exit_code=1)
    for wrong in (["--wher", "x"], ["--where", "nothing = 1"], ["--store", "nothing"], ["-o", "rows"]):
        run("read", there, *wrong, exit_code=2)
    # 130: test_sql.py, test_watch.py; 143: test_watch.py


COMMANDS = {
    "inspect": [],
    "read": [],
    "sql": ["select key, value, partition_id from state"],
    "history": ["--key", "{}"],
    "diff": ["--from", 0, "--to", 2],
    "watch": ["--count", 1],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_json_objects_have_the_members_that_the_page_names(command: str, run: Run) -> None:
    row = re.search(rf"^\| `{command}` \| (.*?) \|", page("JSON"), re.MULTILINE)
    assert row is not None
    for line in run(command, checkpoint("aggregation"), *COMMANDS[command], "--json").lines:
        assert list(line) == re.findall(r"`(\w+)`", row[1])


def test_json_of_inspect_on_every_level(run: Run) -> None:
    report = run("inspect", checkpoint("aggregation"), "--json").lines[0]
    operator = report["operators"][0]
    store = operator["stores"][0]
    levels = {"an operator": operator, "a store": store, "a schema": store["schemas"][0]}
    levels["a partition"] = store["partitions"][0]
    for name, level in levels.items():
        row = re.search(rf"^\| `inspect`, {name} \| (.*?) \|", page("JSON"), re.MULTILINE)
        assert row is not None
        assert list(level) == re.findall(r"`(\w+)`", row[1]), name


def test_json_of_a_store_that_is_watched(run: Run) -> None:
    [store] = run("watch", checkpoint("aggregation"), "--json", "--count", 1).lines[0]["stores"]
    row = re.search(r"^\| `watch`, a store \| (.*?) \|", page("JSON"), re.MULTILINE)
    assert row is not None
    assert list(store) == re.findall(r"`(\w+)`", row[1])


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_what_it_writes_is_utf8_in_any_locale(encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "zähler €"
    shutil.copytree(checkpoint("aggregation"), path)
    environment = {**os.environ, "PYTHONIOENCODING": encoding, "COLUMNS": "200"}
    for options in ((), ("--json",)):
        command = [sys.executable, "-m", "hdfsstore", "inspect", str(path), *options]
        ran = subprocess.run(command, env=environment, capture_output=True, check=False)
        assert ran.returncode == 0, ran.stderr
        assert "zähler €" in ran.stdout.decode("utf-8")
        assert options or "█" in ran.stdout.decode("utf-8")
