# Growing memory for the other modules, and prefetches.
from libc.stdint cimport int64_t, uint8_t


cdef extern from "growable_buffer.h" nogil:
    ctypedef struct Area:
        uint8_t* data
        int64_t capacity
        int mapped

    void area_free(Area* area) noexcept
    bint area_resize(Area* area, int64_t size) noexcept
    bint area_need(Area* area, int64_t size) noexcept
    bint area_zeroed(Area* area, int64_t size) noexcept
    bint area_in_steps(Area* area, int64_t size) noexcept
    int64_t area_make_pages(Area* area, int64_t at, int64_t end) noexcept
    void area_filled(Area* area) noexcept
    bint area_free_some(Area* area) noexcept
    void area_prefetch(const void* p) noexcept
