#!/bin/sh
# Builds the sdist, from it a wheel for each Python that this machine has (or that PYTHONS names), and opens a
# checkpoint with each wheel from an empty folder: once with the newest dependencies, once with the lowest allowed.
set -eu
root=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

.venv/bin/python -m build --quiet --sdist --outdir "$work/sdist" >/dev/null
echo "sdist: $(basename "$work"/sdist/*.tar.gz)"
lowest=$(.venv/bin/python - <<'PY'
import tomllib
from pathlib import Path

for requirement in tomllib.loads(Path("pyproject.toml").read_text())["project"]["dependencies"]:
    print(requirement.split(",")[0].replace(">=", "=="))
PY
)

tested=0
for python in ${PYTHONS:-python3.11 python3.12 python3.13}; do
    "$python" -c 'import venv, ensurepip' 2>/dev/null || { echo "$python: not on this machine"; continue; }
    name=$(basename "$python")
    "$python" -m venv "$work/build-$name"
    "$work/build-$name/bin/pip" --quiet wheel --no-deps --wheel-dir "$work/wheel-$name" "$work"/sdist/*.tar.gz
    for ends in newest lowest; do
        "$python" -m venv "$work/$name-$ends"
        pins=
        [ $ends = newest ] || pins=$lowest
        # shellcheck disable=SC2086 # one requirement a word
        "$work/$name-$ends/bin/pip" --quiet install "$work/wheel-$name"/*.whl $pins || {
            echo "$python: the $ends dependencies cannot be installed" >&2
            exit 1
        }
        mkdir -p "$work/empty"
        (cd "$work/empty" && "$work/$name-$ends/bin/python" -I "$root/tools/smoke.py" "$root/tests/data")
    done
    tested=$((tested + 1))
done
[ $tested -gt 0 ] || { echo "no Python 3.11 to 3.13 found" >&2; exit 1; }
