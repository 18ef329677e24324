# xxHash32 (its specification: "xxHash fast digest algorithm", version 0.1.1): four lanes of 32 bits, 16 bytes a step.
from libc.stddef cimport size_t
from libc.stdint cimport uint32_t, uint8_t

from byteorder cimport load_le32

cdef enum:
    PRIME_1 = 0x9E3779B1
    PRIME_2 = 0x85EBCA77
    PRIME_3 = 0xC2B2AE3D
    PRIME_4 = 0x27D4EB2F
    PRIME_5 = 0x165667B1


cdef inline uint32_t rotate_left(uint32_t x, int bits) noexcept nogil:
    return (x << bits) | (x >> (32 - bits))


cdef inline uint32_t next_lane(uint32_t lane, const uint8_t* p) noexcept nogil:
    return rotate_left(lane + load_le32(p) * <uint32_t> PRIME_2, 13) * <uint32_t> PRIME_1


cdef inline uint32_t xxh32(const uint8_t* p, size_t size, uint32_t seed) noexcept nogil:
    cdef const uint8_t* end = p + size
    cdef uint32_t h = seed + <uint32_t> PRIME_5
    cdef uint32_t a, b, c, d
    if size >= 16:
        a = seed + <uint32_t> PRIME_1 + <uint32_t> PRIME_2
        b = seed + <uint32_t> PRIME_2
        c = seed
        d = seed - <uint32_t> PRIME_1
        while end - p >= 16:
            a = next_lane(a, p)
            b = next_lane(b, p + 4)
            c = next_lane(c, p + 8)
            d = next_lane(d, p + 12)
            p += 16
        h = rotate_left(a, 1) + rotate_left(b, 7) + rotate_left(c, 12) + rotate_left(d, 18)
    h += <uint32_t> size
    while end - p >= 4:
        h = rotate_left(h + load_le32(p) * <uint32_t> PRIME_3, 17) * <uint32_t> PRIME_4
        p += 4
    while p < end:
        h = rotate_left(h + p[0] * <uint32_t> PRIME_5, 11) * <uint32_t> PRIME_1
        p += 1
    h = (h ^ (h >> 15)) * <uint32_t> PRIME_2
    h = (h ^ (h >> 13)) * <uint32_t> PRIME_3
    return h ^ (h >> 16)
