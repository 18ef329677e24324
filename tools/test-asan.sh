#!/bin/sh
# Builds the compiled modules with AddressSanitizer and UndefinedBehaviorSanitizer into build/asan and runs the tests of
# the compiled modules and a short fuzz run on that build.
set -eu
. tools/sanitized.sh
# What Python never frees is no leak of ours; an allocation that is too large is a MemoryError.
export ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1
sanitized asan address,undefined asan ubsan
# The allocator has memory of its own and keeps what was freed, so memory is not counted.
# A limit on address space, which the test of full memory sets, would hit the sanitizer's own.
run_tests tests/unit/codecs tests/unit/cext tests/unit/spark/worker/test_key_groups.py \
    --ignore=tests/unit/cext/test_map_out_of_memory.py -m "not resident_memory"
$python -m tests.fuzz --seconds 15 --target lz4 --target lzf --target checked_records --target records \
    --target changelogs --target rows --target images --target forged_images \
    --target sst_files --target forged_sst_files --target manifests --target rocksdb_rows
