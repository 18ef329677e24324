# Rows that were merged, one after the other, each with its value behind its key.

cdef struct Chunk:
    uint8_t* data               # with SLACK bytes behind the capacity
    int32_t* keys               # spans
    int32_t* values
    int64_t capacity, filled, max_count, count


cdef inline bint has_room(const Chunk* chunk, int64_t size) noexcept nogil:
    return chunk.count < chunk.max_count and chunk.filled + size <= chunk.capacity


cdef inline const uint8_t* append_key(Chunk* chunk, const uint8_t* key, int64_t size) noexcept nogil:
    """Begins a row, and returns where its key lies now."""
    cdef uint8_t* out = chunk.data + chunk.filled
    chunk.keys[2 * chunk.count] = <int32_t> chunk.filled
    chunk.keys[2 * chunk.count + 1] = <int32_t> size
    copy_bytes(out, key, size)
    chunk.filled += size
    return out


cdef inline void append_value(Chunk* chunk, const uint8_t* value, int64_t size) noexcept nogil:
    chunk.values[2 * chunk.count] = <int32_t> chunk.filled
    chunk.values[2 * chunk.count + 1] = <int32_t> size
    copy_bytes(chunk.data + chunk.filled, value, size)
    chunk.filled += size
    chunk.count += 1


cdef inline void extend_value(Chunk* chunk, const uint8_t* value, int64_t size) noexcept nogil:
    """Adds to the value of the last row."""
    copy_bytes(chunk.data + chunk.filled, value, size)
    chunk.values[2 * chunk.count - 1] += <int32_t> size
    chunk.filled += size


cdef struct Taken:              # the last entry of the last key
    const uint8_t* key
    int64_t key_size
    uint64_t sequence
    int number                  # of its run
