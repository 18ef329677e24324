# Declares CRC-32C for the other modules. The crc of crc32c_update is a finished one, 0 at the start.
from libc.stdint cimport uint32_t, uint8_t


cdef extern from "crc32c.h" nogil:
    uint32_t crc32c_update(uint32_t crc, const uint8_t* p, size_t n) noexcept
    uint32_t crc32c_by_tables(uint32_t register, const uint8_t* p, size_t n) noexcept
