#!/bin/sh
# Builds the sdist, from it a wheel for each Python that this machine has (or that PYTHONS names), and opens a
# checkpoint with each wheel from an empty folder: once with the newest dependencies, once with the lowest allowed.
# With the first wheel it also runs a stateful query that has a timeout.
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
    if [ $tested -eq 0 ]; then
        "$python" -m venv "$work/spark"
        "$work/spark/bin/pip" --quiet install "$(echo "$work/wheel-$name"/*.whl)[spark]"
        mkdir "$work/query"
        # shellcheck disable=SC2016 # the inner shell's
        sh tools/with-java.sh sh -c 'cd "$0" && exec "$@"' "$work/query" \
            "$work/spark/bin/python" -I "$root/tools/smoke_query.py" "$work/query"
    fi
    tested=$((tested + 1))
done
[ $tested -gt 0 ] || { echo "no Python 3.11 to 3.13 found" >&2; exit 1; }
