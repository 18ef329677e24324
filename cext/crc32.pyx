"""The check of Hadoop's hidden checksum files: a big-endian CRC-32 (zlib's, not Castagnoli's) for each chunk."""

from byteorder cimport load_be32
from libc.stdint cimport int64_t, uint8_t, uint32_t

cdef extern from "crc32.h" nogil:
    void hs_crc32_init()
    uint32_t hs_crc32(const uint8_t *p, size_t n)

hs_crc32_init()


def first_bad_chunk(const uint8_t[::1] data not None, const uint8_t[::1] sums not None, int64_t chunk):
    cdef int64_t size = data.shape[0]
    cdef int64_t count
    cdef int64_t i
    cdef const uint8_t *at
    cdef const uint8_t *expected
    if chunk <= 0 or size % chunk:
        raise ValueError("data must be whole chunks of a positive size")
    count = size // chunk
    if sums.shape[0] != 4 * count:
        raise ValueError("one checksum of 4 bytes is needed for each chunk")
    if count == 0:
        return -1
    at = &data[0]
    expected = &sums[0]
    with nogil:
        for i in range(count):
            if hs_crc32(at + i * chunk, <size_t>chunk) != load_be32(expected + 4 * i):
                break
        else:
            i = -1
    return i
