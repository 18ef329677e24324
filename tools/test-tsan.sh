#!/bin/sh
# Builds the compiled modules with ThreadSanitizer into build/tsan and runs the tests of threads on that build.
set -eu
. tools/sanitized.sh
# Races between Python's or Arrow's own accesses, which were not compiled for it, cannot be told: only ours are watched.
export TSAN_OPTIONS=halt_on_error=1:ignore_noninstrumented_modules=1:allocator_may_return_null=1
sanitized tsan thread tsan
run_tests tests/unit/cext/test_versioned_map_threads.py tests/contract/test_threads.py -k 'not rocksdb'
