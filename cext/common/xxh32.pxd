# Computes xxHash32 ("xxHash fast digest algorithm", version 0.1.1): four lanes of 32 bits, 16 bytes a step.
from libc.stddef cimport size_t
from libc.stdint cimport uint32_t, uint8_t

from byteorder cimport load_le32

cdef extern from "xxh32_lanes.h" nogil:
    bint xxh32_can_eight() noexcept
    void xxh32_eight(uint32_t (*lanes)[4], const uint8_t** blocks, size_t size) noexcept

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


cdef inline void start_lanes(uint32_t* lanes, uint32_t seed) noexcept nogil:
    lanes[0] = seed + <uint32_t> PRIME_1 + <uint32_t> PRIME_2
    lanes[1] = seed + <uint32_t> PRIME_2
    lanes[2] = seed
    lanes[3] = seed - <uint32_t> PRIME_1


cdef inline uint32_t finish(const uint32_t* lanes, const uint8_t* p, size_t size, uint32_t seed) noexcept nogil:
    """Returns the hash of size bytes at p. The lanes have taken all but the last size % 16 of them."""
    cdef const uint8_t* end = p + size
    cdef uint32_t h = seed + <uint32_t> PRIME_5
    if size >= 16:
        h = rotate_left(lanes[0], 1) + rotate_left(lanes[1], 7) + rotate_left(lanes[2], 12) + rotate_left(lanes[3], 18)
    h += <uint32_t> size
    p += size - size % 16
    while end - p >= 4:
        h = rotate_left(h + load_le32(p) * <uint32_t> PRIME_3, 17) * <uint32_t> PRIME_4
        p += 4
    while p < end:
        h = rotate_left(h + p[0] * <uint32_t> PRIME_5, 11) * <uint32_t> PRIME_1
        p += 1
    h = (h ^ (h >> 15)) * <uint32_t> PRIME_2
    h = (h ^ (h >> 13)) * <uint32_t> PRIME_3
    return h ^ (h >> 16)


cdef inline uint32_t xxh32(const uint8_t* p, size_t size, uint32_t seed) noexcept nogil:
    cdef uint32_t[4] lanes
    cdef uint32_t a, b, c, d
    cdef size_t at = 0
    start_lanes(lanes, seed)
    a, b, c, d = lanes[0], lanes[1], lanes[2], lanes[3]
    while size - at >= 16:
        a = next_lane(a, p + at)
        b = next_lane(b, p + at + 4)
        c = next_lane(c, p + at + 8)
        d = next_lane(d, p + at + 12)
        at += 16
    lanes[0], lanes[1], lanes[2], lanes[3] = a, b, c, d
    return finish(lanes, p, size, seed)


cdef inline void xxh32_of_each(
    uint32_t* hashes, const uint8_t** blocks, int count, size_t size, uint32_t seed
) noexcept nogil:
    """Computes the hashes of 1 to 8 blocks of one size."""
    cdef uint32_t[8][4] lanes
    cdef const uint8_t* eight[8]
    cdef int i
    if count < 3 or not xxh32_can_eight():
        for i in range(count):
            hashes[i] = xxh32(blocks[i], size, seed)
        return
    for i in range(8):
        eight[i] = blocks[i if i < count else 0]
        start_lanes(lanes[i], seed)
    xxh32_eight(lanes, eight, size - size % 16)
    for i in range(count):
        hashes[i] = finish(lanes[i], blocks[i], size, seed)
