# Loads and stores unaligned numbers. Spark's files hold both byte orders: the JVM's streams are big-endian, UnsafeRows
# are little-endian on every platform that Spark runs on.
from libc.stdint cimport int32_t, int64_t, uint16_t, uint32_t, uint64_t, uint8_t


cdef inline uint32_t load_be32(const uint8_t* p) noexcept nogil:
    return (<uint32_t> p[0] << 24) | (<uint32_t> p[1] << 16) | (<uint32_t> p[2] << 8) | p[3]


cdef inline uint64_t load_be64(const uint8_t* p) noexcept nogil:
    return (<uint64_t> load_be32(p) << 32) | load_be32(p + 4)


cdef inline uint32_t load_le32(const uint8_t* p) noexcept nogil:
    return p[0] | (<uint32_t> p[1] << 8) | (<uint32_t> p[2] << 16) | (<uint32_t> p[3] << 24)


cdef inline uint64_t load_le64(const uint8_t* p) noexcept nogil:
    return load_le32(p) | (<uint64_t> load_le32(p + 4) << 32)


cdef inline void store_be32(uint8_t* p, uint32_t x) noexcept nogil:
    p[0] = <uint8_t> (x >> 24)
    p[1] = <uint8_t> (x >> 16)
    p[2] = <uint8_t> (x >> 8)
    p[3] = <uint8_t> x


cdef inline void store_le32(uint8_t* p, uint32_t x) noexcept nogil:
    p[0] = <uint8_t> x
    p[1] = <uint8_t> (x >> 8)
    p[2] = <uint8_t> (x >> 16)
    p[3] = <uint8_t> (x >> 24)


cdef inline void store_le64(uint8_t* p, uint64_t x) noexcept nogil:
    store_le32(p, <uint32_t> x)
    store_le32(p + 4, <uint32_t> (x >> 32))
