"""The documentation: links lead somewhere, the names it gives are there, and the examples run."""

from __future__ import annotations

import ast
import functools
import importlib.util
import re
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hdfsstore
from hdfsstore.spark.driver.conf import NAMES, QueryConf
from hdfsstore.state.conf import StateStoreConf, parse_bytes
from tests.support.truth import DATA

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "SECURITY.md", "tests/data/README.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
# Dotted names on the pages that are no logger's.
NAMES_OF_CODE = {
    "hdfsstore.__version__",
    "hdfsstore._cext.lzf",
    "hdfsstore.compression.codec",
    "hdfsstore.fs.client",
    "hdfsstore.fs.timeout",
    "hdfsstore.open_provider",
    "hdfsstore.repair",
    "hdfsstore.spark",
}
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)", re.DOTALL)
EXAMPLES = [code for kind, code in FENCED.findall((ROOT / "docs/reading.md").read_text("utf-8")) if kind == "python"]


def anchors(page: Path) -> set[str]:
    """The names by which a link finds the page's headings, made as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", FENCED.sub("", page.read_text("utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_a_page_and_a_heading(page: Path) -> None:
    for link in LINK.findall(FENCED.sub("", page.read_text("utf-8"))):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_tests_and_files_that_are_named_are_there(page: Path) -> None:
    text = page.read_text("utf-8")
    tests = "".join(path.read_text("utf-8") for path in (ROOT / "tests").rglob("*.py"))
    for name in re.findall(r"`(?:[\w/.]+::)*(test_\w+)`", text):
        assert f"def {name}(" in tests, name
    for path, name in re.findall(r"`([\w/]+\.py)::(\w+)", text):
        named = [file.read_text("utf-8") for file in (ROOT / "tests").rglob(path.removeprefix("tests/"))]
        assert any(re.search(rf"(def|class) {name}\b", file) for file in named), f"{path}::{name}"
    for path in re.findall(r"`((?:hdfsstore|cext|tests|tools|bench)/[\w./-]*)`", text):
        assert (ROOT / path).exists(), path
    for case in re.findall(r"\b(\d\.\d\.\d/\w+)", text):
        assert (DATA / f"spark-{case}" / "checkpoint").is_dir(), case


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_modules_and_make_targets_that_are_named_are_there(page: Path) -> None:
    text = page.read_text("utf-8")
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert set(re.findall(r"(?:`|^ *)make ([a-z-]+)", text, re.MULTILINE)) <= set(targets)
    for name in re.findall(
        r"\b(?:python3? -m|import [\w. ,]*,|import|from) ((?:hdfsstore|tests|bench|demo)(?:\.\w+)*)", text
    ):
        assert importlib.util.find_spec(name), name


@pytest.mark.parametrize("code", EXAMPLES)
def test_examples_run(code: str) -> None:
    case = "join_inner" if "join_side" in code else "offset_log_v2"
    case = "transform_structures" if "state_var" in code else case
    path = DATA / "spark-4.3.0" / case / "checkpoint"
    names: dict[str, Any] = {"hdfsstore": hdfsstore, "cp": hdfsstore.Checkpoint(path)}
    exec(code.replace("file:///data/cp", path.as_uri()), names)  # what stands in reading.md, on a real checkpoint
    for name in names.keys() & {"table", "waiting", "changes"}:
        assert isinstance(names[name], pa.Table)
        assert names[name].num_rows > 0


def test_the_examples_of_the_store_run_in_their_order(tmp_path: Path) -> None:
    text = (ROOT / "docs/store.md").read_text("utf-8")
    names: dict[str, object] = {}
    for code in (code for kind, code in FENCED.findall(text) if kind == "python"):
        exec(code.replace("file:///data/cp", tmp_path.as_uri()), names)
    written = sorted(path.name.split("_")[0] for path in (tmp_path / "state/0/0").iterdir())
    assert written == ["1", "2", "3", "3"]


def test_the_examples_of_the_readme_run(tmp_path: Path) -> None:
    """Except the stateful function, which needs a Spark: docs/stateful.md has the same, and tests/spark runs it."""
    places = {"build/demo/checkpoint": DATA / "spark-4.3.0/snapshots/checkpoint", "build/demo/own/state": tmp_path}
    for place, path in places.items():
        [code] = [code for _, code in FENCED.findall((ROOT / "README.md").read_text("utf-8")) if f'"{place}"' in code]
        exec(code.replace(place, path.as_posix()), {})
    assert [path.name.split("_")[0] for path in (tmp_path / "0/0").iterdir()] == ["1"]


def test_the_examples_of_repairs_run_in_their_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(DATA / "spark-4.3.0/aggregation/checkpoint", tmp_path / "checkpoint")
    names: dict[str, Any] = {}
    text = (ROOT / "docs/repair.md").read_text("utf-8")
    for code in (code for kind, code in FENCED.findall(text) if kind == "python"):
        exec(code.replace("/data", tmp_path.as_posix()), names)
    assert "2 partitions become 10, 8 rows" in capsys.readouterr().out
    assert hdfsstore.Checkpoint(tmp_path / "checkpoint-10").operator().store().num_partitions == 10
    backup, *others = (tmp_path / "checkpoint/_hdfsstore_backup").iterdir()
    assert (backup / "undone").exists()
    assert not others


@functools.cache
def loggers() -> set[str]:
    """The loggers that the package writes to. Each that it makes is used."""
    found = set()
    for path in (ROOT / "hdfsstore").rglob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text("utf-8"))))
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for node in nodes:
            if not (isinstance(node, ast.Assign) and ast.unparse(node.value).startswith("logging.getLogger(")):
                continue
            assert isinstance(node.value, ast.Call)
            [target], [name] = node.targets, node.value.args
            assert isinstance(target, ast.Name), f"{module} keeps its logger in {ast.unparse(target)}"
            uses = [n for n in nodes if isinstance(n, ast.Name) and n.id == target.id and isinstance(n.ctx, ast.Load)]
            assert uses, f"{module} makes a logger and does not use it"
            assert isinstance(name, ast.Constant), f"{module} gives its logger no fixed name"
            found.add(name.value)
    return found


def test_the_page_on_logging_names_every_logger_once() -> None:
    text = (ROOT / "docs/logging.md").read_text("utf-8")
    assert sorted(re.findall(r"^\| `(hdfsstore[\w.]*)` \|", text, re.MULTILINE)) == sorted(loggers())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_loggers_that_are_named_are_there(page: Path) -> None:
    """A dotted name on a page is a logger's, but for a few: code is named by its path."""
    named = re.findall(r"`(hdfsstore(?:\.[a-z_]+)+)`", FENCED.sub("", page.read_text("utf-8")))
    assert set(named) - NAMES_OF_CODE <= loggers()


def test_the_table_of_options_names_every_option_and_its_default() -> None:
    text = (ROOT / "docs/stateful.md").read_text("utf-8")
    defaults = dict(re.findall(r"^\| `hdfsstore\.([\w.]+)` \| (.*?) \|", text, re.MULTILINE))
    assert sorted(defaults) == sorted(NAMES)
    values = {name: default for name, default in defaults.items() if re.fullmatch(r"[\w.]+", default)}
    assert defaults.keys() - values.keys() == {
        "fs.client",
        "numPartitions",
        "localDir",
    }  # whose defaults are other settings
    for name, default in values.items():
        assert QueryConf.from_spark({}, {f"hdfsstore.{name}": default}) == QueryConf.from_spark({}, {}), name


def test_defaults_of_a_store_that_pages_name_are_those_of_the_code() -> None:
    conf = StateStoreConf()
    named = [
        (name, default)
        for page in PAGES
        for name, default in re.findall(r"`(\w+)`(?: \w+)? \(([\d.]+(?: [MG]iB)?)\)", page.read_text("utf-8"))
        if hasattr(conf, name)
    ]
    for name, default in named:
        number = parse_bytes(default.replace("iB", "b")) if "iB" in default else float(default)
        assert getattr(conf, name) == number, name
    assert {"min_deltas_for_snapshot", "maintenance_interval", "max_record_bytes"} <= {name for name, _ in named}


def test_the_picture_of_state_and_keys_is_what_a_store_does(tmp_path: Path) -> None:
    text = (ROOT / "docs/state-and-keys.md").read_text("utf-8")
    rows = re.findall(r"► state/0/(\d) +│(.*)│(.*)│(.*)│$", text, re.MULTILINE)
    keys, values = pa.schema([("user", pa.string())]), pa.schema([("clicks", pa.int64())])
    conf = StateStoreConf.from_spark({"spark.sql.streaming.stateStore.checkpointFormatVersion": 1})
    for partition, *cells in rows:
        *written, whole = [{name: int(n) for name, n in re.findall(r"(\w+)=(\d+)", cell)} for cell in cells]
        assert hdfsstore.partition_ids(pa.record_batch([list(whole)], keys), len(rows)).to_pylist() == [
            int(partition)
        ] * len(whole)
        store_id = hdfsstore.StateStoreId(str(tmp_path / "state"), 0, int(partition))
        with hdfsstore.open_provider(store_id, conf=conf, key_schema=keys, value_schema=values) as provider:
            for version, changes in enumerate(written):
                store = provider.get_store(version)
                counts = pa.record_batch([pa.array(changes.values(), pa.int64())], values)
                store.put_batch(pa.record_batch([pa.array(changes, pa.string())], keys), counts)
                store.commit()
            with provider.get_read_store(len(written)) as state:
                found = pa.Table.from_batches(state.scan()).flatten()
        assert dict(zip(found["key.user"].to_pylist(), found["value.clicks"].to_pylist(), strict=True)) == whole
        names = {path.name for path in (tmp_path / "state/0" / partition).iterdir()}
        assert {"1.delta", "2.delta"} <= names
    assert len(rows) == 3


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 7


def test_every_page_is_in_the_index() -> None:
    index = ROOT / "docs" / "README.md"
    linked = {(index.parent / link.partition("#")[0]).resolve() for link in LINK.findall(index.read_text("utf-8"))}
    assert set((ROOT / "docs").rglob("*.md")) - {index} <= linked


def prose(page: Path) -> list[str]:
    """The page's lines without code, tables and URLs."""
    lines = re.sub(r"^\s*```.*?^\s*```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL).splitlines()
    return [line for line in lines if not line.startswith(("|", "    ")) and "://" not in line]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_lines_of_prose_have_120_characters_at_most(page: Path) -> None:
    assert [line for line in prose(page) if len(line) > 120] == []


def test_lines_of_code_have_120_characters_at_most() -> None:
    """Ruff checks neither what mypy's comments add to a line, nor other languages than Python."""
    kinds = {".py", ".pyi", ".pyx", ".pxd", ".pxi", ".h", ".c", ".java", ".sh"}
    tops = ("hdfsstore", "cext", "tests", "bench", "demo", "tools")
    paths = [
        path for top in tops for path in (ROOT / top).rglob("*") if path.suffix in kinds and DATA not in path.parents
    ]
    paths += [ROOT / "Makefile", ROOT / "setup.py", ROOT / ".ci" / "run"]
    assert len(paths) > 400
    long = {
        (path.relative_to(ROOT), line)
        for path in paths
        for line in path.read_text("utf-8").split("\n")
        if len(line) > 120
    }
    assert long == set()


def test_every_line_of_pip_is_the_same() -> None:
    """Extras that exist, in the quotes that some shells need. README installs from the sources it is in."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    places = [*PAGES, *(ROOT / "hdfsstore").rglob("*.py")]
    lines = [(path, line) for path in places for line in re.findall(r"pip install ([^`\n]*)", path.read_text("utf-8"))]
    ours = [(path, line) for path, line in lines if not line.startswith("msgpack")]
    assert len(ours) > 10
    for path, line in ours:
        source = r"\." if path == ROOT / "README.md" else project["name"]
        found = re.match(rf"'{source}\[([\w,]+)\]'(?=$|[^\w])", line)
        assert found, f"{path.relative_to(ROOT)}: pip install {line}"
        assert set(found[1].split(",")) <= set(project["optional-dependencies"]), f"{path.relative_to(ROOT)}: {line}"
