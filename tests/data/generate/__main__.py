"""python -m tests.data.generate [--spark 4.3.0]... [--case NAME]..."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

from .environments import ENVIRONMENTS, NEWEST, Environment
from .old_java import OPTIONS, widen_class_reader

HERE = Path(__file__).parent
DATA = HERE.parent
REPOSITORY = DATA.parent.parent
# Checkpoints keep absolute paths of their sources: this folder is the same on every machine.
WORK = Path("/tmp/hdfsstore-data")


def run(environment: Environment, module: str, *arguments: str | Path, **variables: str) -> int:
    """Runs a module of this package in an environment; workers of Python find the package too."""
    environ = {**os.environ, "PYTHONPATH": str(REPOSITORY), "PYTHONDONTWRITEBYTECODE": "1", "TZ": "UTC", **variables}
    environ.pop("SPARK_HOME", None)
    command = [environment.interpreter, "-m", f"tests.data.generate.{module}", *arguments]
    return subprocess.run(command, env=environ, cwd=REPOSITORY, check=False).returncode


def compile_java(environment: Environment, folder: Path) -> Path:
    """Compiles the Java helpers against the jars of an environment's Spark."""
    classes = folder / "classes"
    classes.mkdir(parents=True, exist_ok=True)
    folders = ["java"] if environment.spark.startswith("3.") else ["java", "java_since_40"]
    sources = sorted(file for name in folders for file in (HERE / name).rglob("*.java"))
    subprocess.run(["javac", "-nowarn", "-cp", f"{environment.jars}/*", "-d", classes, *sources], check=True)
    return classes


def listed(environment: Environment) -> list[tuple[str, bool]]:
    """The names of the cases of a Spark, and whether each needs a session of its own."""
    code = (
        "import sys; from tests.data.generate import case, write\n"
        "for found in case.cases_of(sys.argv[1]): print(found.name, int(found.own_session))"
    )
    said = subprocess.run(
        [environment.interpreter, "-c", code, environment.spark],
        cwd=REPOSITORY,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return [(name, own == "1") for name, own in (line.split() for line in said.splitlines())]


def write(environment: Environment, folder: Path, only: list[str]) -> list[str]:
    """Writes all (or only some) cases of one Spark; returns their names."""
    chosen = [(name, own) for name, own in listed(environment) if not only or name in only]
    classes = compile_java(environment, folder)
    shared = [name for name, own in chosen if not own]
    runs = [[name] for name, own in chosen if own] + ([shared] if shared else [])
    for names in runs:
        for name in names:
            shutil.rmtree(folder / name, ignore_errors=True)
        run(environment, "write", folder, classes, *names)
    return [name for name, _ in chosen]


def write_old(environment: Environment, folder: Path, only: list[str]) -> list[str]:
    """Writes the cases of a Spark whose Python is too old for this package; returns their names."""
    chosen = [name for name in environment.cases if not only or name in only]
    classes = folder / "classes"
    widen_class_reader(environment.jars, classes)
    for name in chosen:
        shutil.rmtree(folder / name, ignore_errors=True)
    run(
        environment,
        "old_spark",
        folder,
        *chosen,
        JAVA_TOOL_OPTIONS=f"{OPTIONS} -Duser.timezone=UTC",
        PYSPARK_SUBMIT_ARGS=f"--driver-class-path {classes} pyspark-shell",
        PYSPARK_PYTHON=str(environment.interpreter),
        SPARK_LOCAL_IP="127.0.0.1",
    )
    return chosen


def generate(environment: Environment, only: list[str]) -> bool:
    """Writes the cases of one Spark, reads them with the newest, and puts both in place."""
    environment.create()
    ENVIRONMENTS[NEWEST].create()
    folder = WORK / environment.spark
    chosen = (write_old if environment.cases else write)(environment, folder, only)
    written = [name for name in chosen if (folder / name / "case.json").exists()]
    if written:
        run(ENVIRONMENTS[NEWEST], "truth", folder, *written)
    if not only:
        shutil.rmtree(DATA / f"spark-{environment.spark}", ignore_errors=True)
    for name in written:
        place = DATA / f"spark-{environment.spark}" / name
        shutil.rmtree(place, ignore_errors=True)
        for part in ("checkpoint", "truth"):
            shutil.copytree(folder / name / part, place / part)
    return len(written) == len(chosen)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.data.generate", description=__doc__)
    parser.add_argument(
        "--spark", action="append", choices=sorted(ENVIRONMENTS), help="a Spark version; all by default"
    )
    parser.add_argument("--case", action="append", default=[], help="a case's name; all by default")
    arguments = parser.parse_args()
    done = [generate(ENVIRONMENTS[spark], arguments.case) for spark in arguments.spark or sorted(ENVIRONMENTS)]
    sys.exit(0 if all(done) else "some cases could not be written: see above")


if __name__ == "__main__":
    main()
