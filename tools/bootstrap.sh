#!/bin/sh
# Creates .venv and installs hdfsstore with all extras into it: tools/bootstrap.sh PYTHON
set -eu
python=$1

sh tools/need.sh "a C compiler" 'command -v cc || command -v gcc || command -v clang' gcc

if ! "$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then
    for candidate in python3.13 python3.12 python3.11; do
        if "$candidate" -c 'import venv' 2>/dev/null; then python=$candidate; break; fi
    done
fi
"$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' || {
    echo "hdfsstore needs Python 3.11 to 3.13: install one and run make again with PYTHON=/its/path" >&2
    exit 1
}
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    sh tools/need.sh "Python's venv module" "$python -c 'import ensurepip, venv'" python3-venv
fi
sh tools/need.sh "Python's C headers" \
    "test -e \"\$($python -c 'import sysconfig; print(sysconfig.get_path(\"include\"))')/Python.h\"" python3-dev

echo "Installing hdfsstore and its development tools into .venv (a few minutes the first time: PySpark is large) ..."
[ -x .venv/bin/python ] || "$python" -m venv .venv
.venv/bin/python -m pip install --quiet --upgrade pip
extras=cli,sql,report,spark,rocksdb,avro,s3,hdfs,dev
PYTHONWARNINGS=ignore .venv/bin/python -m pip install --quiet --editable ".[$extras]"
