# Sourced by test-asan.sh and test-tsan.sh. Python itself has no sanitizers, so their runtime is loaded first.

# Builds the compiled modules with sanitizers into build/NAME, goes there, and loads the libraries of their runtime.
#   sanitized NAME SANITIZERS LIBRARY...
sanitized() {
    name=$1
    root=$PWD
    python=$root/.venv/bin/python
    HDFSSTORE_SANITIZE=$2 $python setup.py --quiet build_py --build-lib "build/$name" \
        build_ext --build-lib "build/$name" --build-temp "build/temp-$name" --parallel 2
    shift 2
    # The tests are copied, as the folder that holds them is the first that Python looks for hdfsstore in.
    # Without what other runs of them compile meanwhile: a file that goes while it is copied is an error.
    rm -rf "build/$name/tests"
    tar -cf - --exclude __pycache__ tests | tar -xf - -C "build/$name"
    cd "build/$name"
    LD_PRELOAD=
    for library; do
        LD_PRELOAD="$LD_PRELOAD $(cc -print-file-name="lib$library.so")"
    done
    # Arrow's buffers are watched only where they come from malloc.
    export LD_PRELOAD PYTHONMALLOC=malloc ARROW_DEFAULT_MEMORY_POOL=system
    case $($python -c 'import hdfsstore._cext.lz4_block as module; print(module.__file__)') in
    "$root/build/$name"/*) ;;
    *) echo "the tests would not run on the sanitizers' build" >&2 && exit 1 ;;
    esac
}

# The tests of files and folders, on that build. What a sanitizer writes before it ends the process is not captured.
run_tests() {
    $python -m pytest -c "$root/pyproject.toml" --rootdir . -p no:cacheprovider --hypothesis-profile quick \
        -q --capture=sys "$@"
}
