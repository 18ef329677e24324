# Growing buffers as pyarrow buffers, buffers that are filled and freed in steps, and Arrow columns that grow.

cdef inline bint new_buffer(GrowableBuffer* buffer, int64_t size, bint in_steps) noexcept nogil:
    """Makes a new buffer of zeros. `in_steps`: background work fills it."""
    return buffer_in_steps(buffer, size) if in_steps else buffer_zeroed(buffer, size)


cdef inline bint need_buffer(GrowableBuffer* buffer, int64_t size, bint in_steps) noexcept nogil:
    """Makes room in a buffer that is new or grows."""
    if in_steps and buffer.data == NULL:
        return buffer_in_steps(buffer, size)
    return buffer_need(buffer, size)


cdef class Remains:
    """Buffers that are freed some MiB at each call of `free_some`; the rest is freed with this object."""

    cdef GrowableBuffer[16] buffers
    cdef int count

    def __dealloc__(self):
        while self.count:
            self.count -= 1
            buffer_free(&self.buffers[self.count])

    cdef void take(self, GrowableBuffer* buffer) noexcept:
        """Takes a buffer over."""
        if self.count < 16:
            self.buffers[self.count] = buffer[0]
            self.count += 1
            buffer[0] = GrowableBuffer(NULL, 0, 0)
        else:
            buffer_free(buffer)

    cdef bint free_some(self) noexcept:
        """Frees some of them. Returns whether there is more."""
        cdef GrowableBuffer buffer
        cdef bint more
        if self.count == 0:
            return False
        self.count -= 1
        buffer = self.buffers[self.count]
        with nogil:
            more = buffer_free_some(&buffer)
        if more:
            self.take(&buffer)
        return self.count > 0


cdef class BufferOwner:
    """Frees a buffer when the last buffer on it is gone."""

    cdef GrowableBuffer buffer

    def __dealloc__(self):
        buffer_free(&self.buffer)


cdef object buffer_of(GrowableBuffer* buffer, int64_t size):
    """Turns the buffer into a pyarrow buffer of its first `size` bytes, and leaves it empty."""
    cdef BufferOwner owner = BufferOwner()
    if (buffer.data == NULL or size < buffer.capacity) and not buffer_resize(buffer, size):
        raise MemoryError
    owner.buffer = buffer[0]
    buffer[0] = GrowableBuffer(NULL, 0, 0)
    return pa.foreign_buffer(<uintptr_t> owner.buffer.data, size, owner)


cdef struct Column:
    GrowableBuffer data
    GrowableBuffer ends       # uint32, modulo 2 ** 32: no value is so large that its size could not be told from them
    int64_t size
    int64_t count


cdef inline bint column_add(Column* column, const uint8_t* value, int32_t size) noexcept nogil:
    """Appends a value (size -1: a null, or nothing)."""
    if not buffer_need(&column.ends, 4 * (column.count + 2)):
        return False
    if column.count == 0:
        (<uint32_t*> column.ends.data)[0] = 0
    if size > 0:
        if not buffer_need(&column.data, column.size + size):
            return False
        copy_bytes(column.data.data + column.size, value, size)
        column.size += size
    column.count += 1
    (<uint32_t*> column.ends.data)[column.count] = <uint32_t> column.size
    return True


cdef void column_free(Column* column) noexcept nogil:
    buffer_free(&column.data)
    buffer_free(&column.ends)


cdef object column_array(Column* column, validity, int64_t null_count):
    """The column as a binary array, a large one where int32 offsets do not reach. Empties the column."""
    cdef int64_t i, end = 0
    cdef int64_t* wide
    cdef const uint32_t* ends
    if column.count == 0:
        return pa.array([], pa.binary())
    ends = <const uint32_t*> column.ends.data
    kind = pa.binary()
    if column.size > INT32_MAX:
        kind = pa.large_binary()
        offsets = pa.allocate_buffer(8 * (column.count + 1))
        wide = <int64_t*> <uintptr_t> offsets.address
        wide[0] = 0
        with nogil:
            for i in range(column.count):
                end += <int64_t> (ends[i + 1] - ends[i])
                wide[i + 1] = end
        buffer_free(&column.ends)
    else:
        offsets = buffer_of(&column.ends, 4 * (column.count + 1))
    values = buffer_of(&column.data, column.size)
    count = column.count
    column.size = column.count = 0
    return pa.Array.from_buffers(kind, count, [validity, offsets, values], null_count)


cdef BinaryValues checked_values(array, str what) except *:
    """The values of an array that must not hold nulls, nor one that is too large for a record."""
    cdef BinaryValues values = binary_values(array)
    if values.validity != NULL:
        raise ValueError(f"the {what} hold {array.null_count} nulls")
    check_sizes(&values, what)
    return values
