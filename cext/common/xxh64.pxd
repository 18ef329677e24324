# Declares XXH64, XXH3 and XXPH3 for the other modules.
from libc.stddef cimport size_t
from libc.stdint cimport uint64_t, uint8_t


cdef extern from "xxh64.h" nogil:
    uint64_t xxh64(const uint8_t* p, size_t size) noexcept
    uint64_t xxh3(const uint8_t* p, size_t size) noexcept


cdef extern from "xxph3.h" nogil:
    uint64_t xxph3(const uint8_t* p, size_t size) noexcept
