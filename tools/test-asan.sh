#!/bin/sh
# Builds the compiled modules with AddressSanitizer and UndefinedBehaviorSanitizer into build/asan and runs the tests of
# the compiled modules and a short fuzz run on that build.
set -eu
root=$PWD
python=$root/.venv/bin/python
HDFSSTORE_SANITIZE=1 $python setup.py --quiet build_py --build-lib build/asan \
    build_ext --build-lib build/asan --build-temp build/temp-asan --parallel 2

# Python itself is not built with the sanitizers: their runtime has to be there first, and what Python never frees is no
# leak of ours. The tests are copied, as the folder that holds them is the first that Python looks for hdfsstore in.
rm -rf build/asan/tests
cp -R tests build/asan/tests
cd build/asan
LD_PRELOAD="$(cc -print-file-name=libasan.so) $(cc -print-file-name=libubsan.so)"
# Arrow's buffers are watched only where they come from malloc.
export LD_PRELOAD ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 PYTHONMALLOC=malloc ARROW_DEFAULT_MEMORY_POOL=system
case $($python -c 'import hdfsstore._cext.lz4_block as module; print(module.__file__)') in
"$root"/build/asan/*) ;;
*) echo "the tests would not run on the sanitizers' build" >&2 && exit 1 ;;
esac
$python -m pytest -c "$root/pyproject.toml" --rootdir . -p no:cacheprovider --hypothesis-profile quick -q tests/unit/codecs \
    tests/unit/state/test_versioned_map*.py tests/unit/state/test_merger.py tests/unit/spark/test_key_groups.py
$python -m tests.fuzz --seconds 12 --target lz4 --target lzf --target checked_records --target records --target rows \
    --target images --target forged_images
