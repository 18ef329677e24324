"""CRC-32C, the checksum of Hadoop's hidden side files, of Spark's file checksums and of its row checksums."""
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport uint32_t, uint8_t

from byteorder cimport load_be32
from crc32c_inline cimport crc32c_by_tables, crc32c_three_chunks, crc32c_update


def crc32c(data, uint32_t value=0):
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        with nogil:
            value = crc32c_update(value, <const uint8_t*> view.buf, view.len)
    finally:
        PyBuffer_Release(&view)
    return value


def crc32c_portable(data, uint32_t value=0):
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        value = ~crc32c_by_tables(~value, <const uint8_t*> view.buf, view.len)
    finally:
        PyBuffer_Release(&view)
    return value


def first_bad_chunk(data, sums, Py_ssize_t chunk):
    cdef Py_buffer view, sums_view
    cdef Py_ssize_t bad = -1
    if chunk <= 0:
        raise ValueError(f"a chunk has at least 1 byte, not {chunk}")
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        PyObject_GetBuffer(sums, &sums_view, PyBUF_SIMPLE)
        try:
            if sums_view.len // 4 < (view.len + chunk - 1) // chunk:
                raise ValueError(f"{sums_view.len} bytes of sums are too few for {view.len} bytes of data")
            with nogil:
                bad = _first_bad_chunk(<const uint8_t*> view.buf, view.len, <const uint8_t*> sums_view.buf, chunk)
        finally:
            PyBuffer_Release(&sums_view)
    finally:
        PyBuffer_Release(&view)
    return bad


cdef Py_ssize_t _first_bad_chunk(
    const uint8_t* data, Py_ssize_t size, const uint8_t* sums, Py_ssize_t chunk
) noexcept nogil:
    cdef Py_ssize_t start = 0, index = 0
    cdef uint32_t[3] crcs
    cdef int i
    while (size - start) // 3 >= chunk:
        crc32c_three_chunks(crcs, data + start, chunk)
        for i in range(3):
            if crcs[i] != load_be32(sums + 4 * (index + i)):
                return index + i
        start += 3 * chunk
        index += 3
    while start < size:
        if crc32c_update(0, data + start, min(chunk, size - start)) != load_be32(sums + 4 * index):
            return index
        start += chunk
        index += 1
    return -1
