# Strings and binaries: the bytes as they are. UTF-8 is not checked: Spark does not guarantee it.


cdef inline void copy_short(uint8_t* out, const uint8_t* source, int64_t size, int64_t readable) noexcept nogil:
    """Copies size bytes, by 16 at a time while they are few: at most 15 bytes too many, which `out` has room for and
    `readable`, the bytes from source to the end of its buffer, allows."""
    cdef int64_t i = 0
    if size > 64 or ((size + 15) & ~<int64_t> 15) > readable:
        memcpy(out, source, size)
        return
    while i < size:
        memcpy(out + i, source + i, 16)
        i += 16


def read_bytes(data, spans):
    """(offsets, bytes) of an Arrow string or binary array. UTF-8 is not checked: Spark does not guarantee it."""
    cdef const uint8_t* base = address(data)
    cdef int64_t data_size = data.size
    cdef const int32_t* s = <const int32_t*> address(spans)
    cdef int64_t r, size, n = spans.size // 8, total = 0, at = 0
    cdef uint8_t* out
    cdef int32_t* offsets
    with nogil:
        for r in range(n):
            total += max(s[2 * r + 1], 0)
    if total > INT32_MAX:
        raise SchemaMismatchError("the rows overlap: their strings are longer than the data that they lie in")
    offset_buffer = pa.allocate_buffer(4 * (n + 1))
    values = pa.allocate_buffer(total + 16)
    offsets = <int32_t*> address(offset_buffer)
    out = address(values)
    with nogil:
        for r in range(n):
            offsets[r] = <int32_t> at
            size = s[2 * r + 1]
            if size <= 16 and s[2 * r] <= data_size - 16:
                memcpy(out + at, base + s[2 * r], 16)  # more than most strings have, and also for a null
            elif size > 0:
                copy_short(out + at, base + s[2 * r], size, data_size - s[2 * r])
            at += max(size, 0)
        offsets[n] = <int32_t> at
        memset(out + total, 0, 16)
    return offset_buffer, values.slice(0, total)


def byte_sizes(int64_t count, int64_t first, validity, offsets):
    """The bytes of each value of an Arrow string or binary array, -1 for a null, as a buffer of int32."""
    cdef const uint8_t* bits = address(validity)
    cdef const int32_t* starts = <const int32_t*> address(offsets) + first
    cdef int64_t r
    cdef int32_t* out
    result = pa.allocate_buffer(4 * count)
    out = <int32_t*> address(result)
    with nogil:
        for r in range(count):
            out[r] = starts[r + 1] - starts[r] if bits == NULL or get_bit(bits, first + r) else -1
    return result


def write_bytes(out, places, int64_t first, offsets, values):
    """Copies the values of an Arrow string or binary array, the first of which is number `first`, to their places:
    int64 offsets in out, -1 for none."""
    cdef uint8_t* to = address(out)
    cdef const int64_t* at = <const int64_t*> address(places)
    cdef const int32_t* starts = <const int32_t*> address(offsets) + first
    cdef const uint8_t* source = address(values)
    cdef int64_t r, size, n = places.size // 8
    with nogil:
        for r in range(n):
            size = starts[r + 1] - starts[r]
            if at[r] >= 0 and size > 0:
                memcpy(to + at[r], source + starts[r], size)
