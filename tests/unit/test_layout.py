"""The layout tables of docs/development.md: they name every folder, and imports go as they say."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "development.md").read_text("utf-8")
# What users import from, and the command's entry.
PUBLIC = {"hdfsstore", "hdfsstore.repair", "hdfsstore.spark", "hdfsstore.cli"}


@cache
def table(heading: str) -> list[list[str]]:
    """The paths in the first column of the table below a heading, row by row; a name alone is in the folder before."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    rows = []
    for cell in re.findall(r"^\| (`.*?) \|", section, re.MULTILINE):
        paths: list[str] = []
        for name in re.findall(r"`([^`]+)`", cell):
            paths.append(name if "/" in name else f"{paths[-1].rpartition('/')[0]}/{name}")
        rows.append(paths)
    return rows


def folders(top: str, pattern: str) -> set[str]:
    return {f"{path.parent.relative_to(ROOT)}/" for path in (ROOT / top).rglob(pattern)}


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@cache
def modules() -> dict[str, Path]:
    return {module_of(path): path for path in (ROOT / "hdfsstore").rglob("*.py")}


def imports(path: Path) -> Iterator[str]:
    """The modules of the package that a file imports, anywhere in it and for whatever purpose."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path} has a relative import"
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name in modules() else str(node.module) for name in inner]
        yield from (name for name in names if name.split(".")[0] == "hdfsstore")


def place_of(module: str) -> tuple[int, str]:
    """The row of a module, and its room there: a folder, or all files that the row names."""
    file = module.replace(".", "/")
    file += "/__init__.py" if (ROOT / file).is_dir() else ".py"
    for name in (file, *(f"{parent}/" for parent in Path(file).parents)):
        for number, paths in enumerate(table("Layout")):
            if name in paths:
                return number, name if name.endswith("/") else "files"
    raise AssertionError(f"{module} has no row")


def test_the_tables_name_every_folder_once() -> None:
    named = [path for row in table("Layout") for path in row]
    assert len(named) == len(set(named))
    assert {path for path in named if path.endswith("/")} == folders("hdfsstore", "*.py") - {"hdfsstore/"} | folders(
        "cext", "*.p[xy]*"
    )
    assert all((ROOT / path).exists() for path in named)
    tests = {path for row in table("Tests") for path in row}
    assert tests == {f"tests/{name}/" for name in {path.split("/")[1] for path in folders("tests", "*.py")} - {""}}


def test_imports_go_up_the_table() -> None:
    """A row may import the rows above it, and folders of one row do not import each other."""
    against = []
    for module, path in modules().items():
        row, room = place_of(module)
        for other in imports(path):
            to, there = place_of(other)
            if to > row or (to == row and there != room):
                against.append(f"{module} imports {other}")
    assert not against


def test_checkpoints_do_not_know_what_files_their_state_is_in() -> None:
    of_backends = ("hdfsstore.state.hdfs.", "hdfsstore.state.rocksdb.")
    readers = [path for module, path in modules().items() if module.startswith("hdfsstore.checkpoint.")]
    assert readers
    assert not [each for path in readers for each in imports(path) if each.startswith(of_backends)]


def test_no_modules_import_each_other() -> None:
    TopologicalSorter({module: set(imports(path)) for module, path in modules().items()}).prepare()


def test_compiled_modules_import_only_the_errors() -> None:
    for source in (ROOT / "cext").glob("*.pyx"):
        imported = re.findall(r"^(?:from|import) (hdfsstore\S+)", source.read_text("utf-8"), re.MULTILINE)
        assert set(imported) <= {"hdfsstore.errors"}, source


@pytest.mark.parametrize("package", sorted(m for m, path in modules().items() if path.name == "__init__.py"))
def test_packages_import_nothing(package: str) -> None:
    """Python workers start with them."""
    if package not in PUBLIC:
        tree = ast.parse(modules()[package].read_text("utf-8"))
        assert not any(isinstance(node, ast.Import | ast.ImportFrom) for node in ast.walk(tree))


def test_no_test_module_imports_another() -> None:
    for path in [*(ROOT / "tests").rglob("*.py"), *(ROOT / "bench").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom):
                assert not (node.module or "").rpartition(".")[2].startswith("test_"), f"{path} imports {node.module}"
