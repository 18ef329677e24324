# Copies keys and values, which are mostly small. A call of memcpy costs more than such a copy.
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy


cdef inline void copy_bytes(uint8_t* out, const uint8_t* data, int64_t size) noexcept nogil:
    cdef int64_t at = 16
    if size > 128:
        memcpy(out, data, size)
    elif size >= 16:
        while at < size:
            memcpy(out + at - 16, data + at - 16, 16)
            at += 16
        memcpy(out + size - 16, data + size - 16, 16)
    elif size >= 8:
        memcpy(out, data, 8)
        memcpy(out + size - 8, data + size - 8, 8)
    elif size >= 4:
        memcpy(out, data, 4)
        memcpy(out + size - 4, data + size - 4, 4)
    elif size > 0:
        out[0] = data[0]
        out[size >> 1] = data[size >> 1]
        out[size - 1] = data[size - 1]
