import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from hdfsstore.cli.app import app
from tests.unit.cli.conftest import Run, checkpoint


def hdfsstore(*arguments: object, code: str | None = None) -> subprocess.CompletedProcess[str]:
    command = ["-m", "hdfsstore.cli"] if code is None else ["-c", code]
    return subprocess.run([sys.executable, *command, *map(str, arguments)], capture_output=True, text=True, check=False)


def test_help_names_the_commands(run: Run) -> None:
    out = run("--help").out
    assert [name for name in ("inspect", "read", "sql", "history", "diff") if f"\n  {name} " not in out] == []


def test_the_page_names_every_option_of_each_command() -> None:
    page = (Path(__file__).parents[3] / "docs/cli.md").read_text("utf-8")
    group = get_command(app)
    assert isinstance(group, TyperGroup)
    commands = {name: command.params for name, command in group.commands.items()}
    named = {name: set() for name in commands}
    for options, of in re.findall(r"^\| (`-.*?) \| ([\w, ]+) \|", page, re.MULTILINE):
        for name in commands if of == "all" else of.split(", "):
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
    command = f"{sys.executable} -m hdfsstore.cli read {checkpoint('aggregation')} --json | head -c 1"
    ran = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert (ran.stdout, ran.stderr.count("Traceback")) == ("{", 0)
