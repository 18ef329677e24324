#!/bin/sh
# Builds the compiled modules with AddressSanitizer and UndefinedBehaviorSanitizer into build/asan and runs the codec
# tests on that build.
set -eu
HDFSSTORE_SANITIZE=1 .venv/bin/python setup.py --quiet build --build-lib build/asan --build-temp build/temp-asan
# Python itself is not built with the sanitizers: their runtime has to be there first, and Python's own arenas and
# interned objects, never freed, are no leaks of ours.
asan=$(cc -print-file-name=libasan.so)
ubsan=$(cc -print-file-name=libubsan.so)
LD_PRELOAD="$asan $ubsan" ASAN_OPTIONS=detect_leaks=0 PYTHONMALLOC=malloc PYTHONPATH=$PWD/build/asan \
    .venv/bin/python -m pytest -p no:cacheprovider tests/unit/codecs
