"""CRC-32C, the checksum of Spark's file checksums and of its row checksums."""
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport uint32_t, uint8_t

from crc32c_inline cimport crc32c_by_tables, crc32c_update


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
