#!/bin/sh
# Builds the compiled modules with AddressSanitizer and UndefinedBehaviorSanitizer into build/asan and runs the tests of
# the compiled modules and a short fuzz run on that build.
set -eu
. tools/sanitized.sh
# What Python never frees is no leak of ours; an allocation that is too large is a MemoryError.
export ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1
sanitized asan address,undefined asan ubsan
run_tests tests/unit/codecs tests/unit/state/test_versioned_map*.py tests/unit/state/test_merger.py \
    tests/unit/spark/test_key_groups.py
$python -m tests.fuzz --seconds 12 --target lz4 --target lzf --target checked_records --target records --target rows \
    --target images --target forged_images
