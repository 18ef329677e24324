# The hash of a key's bytes. Images keep their index by it, so a change of it is a new format version of theirs.
from libc.stdint cimport int32_t, uint64_t, uint8_t
from libc.string cimport memcpy

from byteorder cimport load_le64


cdef inline uint64_t hash_key(const uint8_t* key, int32_t size, uint64_t seed) noexcept nogil:
    # Keys are rows, so whole words: two at a time, whose products do not wait for each other, then one round of mixing.
    cdef uint64_t h = seed ^ <uint64_t> size, tail
    while size >= 16:
        h = (h ^ (load_le64(key) ^ seed) * <uint64_t> 0x9E3779B97F4A7C15) * 5
        h += rotated((load_le64(key + 8) ^ seed) * <uint64_t> 0xC2B2AE3D27D4EB4F)
        key += 16
        size -= 16
    if size >= 8:
        h = (h ^ rotated(load_le64(key))) * <uint64_t> 0x9E3779B97F4A7C15
        key += 8
        size -= 8
    if size:
        tail = 0
        memcpy(&tail, key, size)
        h = (h ^ rotated(tail)) * <uint64_t> 0x9E3779B97F4A7C15
    h = (h ^ (h >> 32)) * <uint64_t> 0xBF58476D1CE4E5B9
    return h ^ (h >> 31)


cdef inline uint64_t rotated(uint64_t x) noexcept nogil:
    return (x << 32) | (x >> 32)
