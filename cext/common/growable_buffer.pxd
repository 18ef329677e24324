# Declares growable buffers and prefetches for the other modules.
from libc.stdint cimport int64_t, uint8_t


cdef extern from "growable_buffer.h" nogil:
    ctypedef struct GrowableBuffer:
        uint8_t* data
        int64_t capacity
        int mapped

    void buffer_free(GrowableBuffer* buffer) noexcept
    bint buffer_resize(GrowableBuffer* buffer, int64_t size) noexcept
    bint buffer_need(GrowableBuffer* buffer, int64_t size) noexcept
    bint buffer_zeroed(GrowableBuffer* buffer, int64_t size) noexcept
    bint buffer_in_steps(GrowableBuffer* buffer, int64_t size) noexcept
    int64_t buffer_make_pages(GrowableBuffer* buffer, int64_t at, int64_t end) noexcept
    void buffer_filled(GrowableBuffer* buffer) noexcept
    bint buffer_free_some(GrowableBuffer* buffer) noexcept
    void buffer_prefetch(const void* p) noexcept
