# Reads what index blocks say of the places of blocks.

cdef inline Py_ssize_t read_handle(
    const uint8_t* p, int64_t left, bint follows, uint64_t* offset, uint64_t* size
) noexcept nogil:
    """Reads where a block lies, and returns the bytes of this; 0: it does not fit.

    Args:
        follows: `offset` and `size` are those of the block before, and only what its size adds to that is written.
    """
    cdef uint64_t more = 0
    cdef Py_ssize_t step = read_varint(p, left, &more if follows else offset), second
    if step == 0:
        return 0
    if follows:
        offset[0] += size[0] + TRAILER
        size[0] += (more >> 1) ^ (0 - (more & 1))
        return step
    second = read_varint(p + step, left - step, size)
    return step + second if second else 0


def index_extent(const uint8_t[::1] index not None, bint delta_values):
    """How many blocks an index names, and where the last one ends in the file.

    Raises:
        CorruptFileError: the entries do not fit, or their blocks do not follow each other.
    """
    cdef Entry entry
    cdef int64_t size = index.shape[0], end, at = 0, key_size = 0, count = 0, left
    cdef uint64_t offset = 0, block_size = 0, block_end = 0
    cdef Py_ssize_t step
    cdef int fault = NO_FAULT
    end = entries_end(&index[0], size) if size else -1
    if end < 0:
        raise CorruptFileError(PROBLEMS[BAD_BLOCK])
    with nogil:
        while at < end:
            step = entry_sizes(&index[at], end - at, not delta_values, &entry)
            if step == 0 or entry.shared > key_size:
                fault = BAD_ENTRY
                break
            key_size = entry.shared + entry.fresh
            at += step + entry.fresh + entry.value_size
            left = end - at if delta_values else entry.value_size
            step = read_handle(
                entry.bytes + entry.fresh, left, delta_values and entry.shared, &offset, &block_size
            )
            if step == 0:
                fault = BAD_HANDLE
                break
            if delta_values:
                at += step
            if offset < block_end or block_size > INT32_MAX or offset > <uint64_t> 1 << 62:
                fault = BAD_INDEX
                break
            block_end = offset + block_size + TRAILER
            count += 1
    if fault != NO_FAULT:
        raise CorruptFileError(PROBLEMS[fault])
    return count, block_end
