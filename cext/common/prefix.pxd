# The bytes in front of keys and values in RocksDB: a family's number, and the encoding's version.
from libc.stdint cimport int32_t, uint8_t


cdef inline bint begins_with(const uint8_t* p, const uint8_t* prefix, int32_t length) noexcept nogil:
    """Compares few bytes. A call of memcmp costs more."""
    cdef int32_t i
    for i in range(length):
        if p[i] != prefix[i]:
            return False
    return True


cdef inline object prefix_error(const uint8_t* data, int32_t offset, int32_t size, bytes prefix):
    """Says why a span of the data does not begin with the prefix, whose last byte is the version."""
    from hdfsstore.errors import CorruptFileError, UnsupportedVersionError

    cdef Py_ssize_t last = len(prefix) - 1
    found = <bytes> (<const char*> data + offset)[: min(size, last + 1)]
    if len(found) <= last:
        return CorruptFileError(
            f"a key or value has {size} bytes, and ends before its encoding's version", offset=offset
        )
    if found.startswith(prefix[:last]):
        return UnsupportedVersionError(
            f"a key or value has encoding version {found[last]}, this release reads {prefix[last]}", offset=offset
        )
    return CorruptFileError(
        f"a key begins with {found.hex()}, and not with {prefix.hex()}: it is of another column family", offset=offset
    )
