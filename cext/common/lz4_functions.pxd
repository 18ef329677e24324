# Finds the functions of liblz4, which python-lz4 brings along.
#
# python-lz4's own functions copy the data and change the GIL's owner for each block, which costs two threads a third of
# their speed. If its module shows liblz4's symbols (ELF, Mach-O), those are called directly.
from libc.stdint cimport uintptr_t
from libc.string cimport memcpy

ctypedef int (*Compress)(const char* source, char* target, int size, int capacity) noexcept nogil
ctypedef int (*Decompress)(const char* source, char* target, int size, int capacity) noexcept nogil


cdef inline int compress_by_python(const char* source, char* target, int size, int capacity) noexcept with gil:
    import lz4.block

    body = lz4.block.compress(source[:size], store_size=False)
    memcpy(target, <const char*> body, len(body))
    return <int> len(body)


cdef inline int decompress_by_python(const char* source, char* target, int size, int capacity) noexcept with gil:
    import lz4.block

    try:
        decoded = lz4.block.decompress(source[:size], uncompressed_size=capacity)
    except lz4.block.LZ4BlockError:
        return -1
    memcpy(target, <const char*> decoded, len(decoded))
    return <int> len(decoded)


cdef inline void* symbol_of(str name):
    """A function of liblz4; NULL: its symbols are not shown."""
    import ctypes

    import lz4.block

    try:
        symbol = getattr(ctypes.CDLL(lz4.block._block.__file__), name)
    except (AttributeError, OSError):
        return NULL
    return <void*> <uintptr_t> ctypes.cast(symbol, ctypes.c_void_p).value


cdef inline Decompress fastest_decompress():
    cdef void* found = symbol_of("LZ4_decompress_safe")
    return <Decompress> found if found != NULL else decompress_by_python


cdef inline Compress fastest_compress():
    cdef void* found = symbol_of("LZ4_compress_default")
    return <Compress> found if found != NULL else compress_by_python
