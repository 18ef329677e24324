# Reads the entries of blocks.

cdef struct Entry:
    int64_t shared, fresh, value_size
    const uint8_t* bytes        # the fresh bytes of the key, with the value behind them


cdef inline Py_ssize_t entry_sizes(const uint8_t* p, Py_ssize_t size, bint with_value, Entry* entry) noexcept nogil:
    """Reads the sizes of an entry, and returns their bytes; 0: they do not fit."""
    cdef uint64_t shared = 0, fresh = 0, value = 0
    cdef Py_ssize_t at, step
    if with_value and size >= 3 and (p[0] | p[1] | p[2]) < 0x80:
        shared, fresh, value = p[0], p[1], p[2]
        at = 3
    else:
        at = read_varint(p, size, &shared)
        step = read_varint(p + at, size - at, &fresh)
        if at == 0 or step == 0:
            return 0
        at += step
        if with_value:
            step = read_varint(p + at, size - at, &value)
            if step == 0:
                return 0
            at += step
    if fresh > <uint64_t> (size - at) or value > <uint64_t> (size - at) - fresh or shared > MAX_RECORD:
        return 0
    entry.shared = shared
    entry.fresh = fresh
    entry.value_size = value
    entry.bytes = p + at
    return at


cdef enum:
    CONTRADICTS = -1
    HAS_HASHES = -2             # a hash index follows the restart points, which no table of Spark has


cdef inline int64_t entries_end(const uint8_t* block, int64_t size) noexcept nogil:
    """Where the entries of a block end, or a negative number."""
    cdef int64_t restarts
    if size < 4:
        return CONTRADICTS
    restarts = load_le32(block + size - 4)
    if restarts >> 31:
        return HAS_HASHES
    if restarts > (size - 4) // 4 or (restarts == 0 and size > 4):
        return CONTRADICTS
    return size - 4 - 4 * restarts


cdef enum:
    MOST_SHARED = 16            # times the bytes of a small block, in names and range deletions that share bytes


def block_entries(const uint8_t[::1] block not None):
    """The (key, value) of each entry of a small block that has no delta-encoded values.

    Raises:
        CorruptFileError: the entries do not fit, or share so many bytes that they would fill the memory.
    """
    cdef Entry entry
    cdef int64_t size = block.shape[0], end, at = 0, left = MOST_SHARED * size
    cdef Py_ssize_t step
    cdef bytes key = b""
    cdef list found = []
    end = entries_end(&block[0], size) if size else -1
    if end < 0:
        raise CorruptFileError(PROBLEMS[BAD_BLOCK])
    while at < end:
        step = entry_sizes(&block[at], end - at, True, &entry)
        left -= entry.shared if step else 0
        if step == 0 or entry.shared > len(key) or left < 0:
            raise CorruptFileError(PROBLEMS[BAD_ENTRY])
        key = key[: entry.shared] + <bytes> (<const char*> entry.bytes)[: entry.fresh]
        found.append((key, <bytes> (<const char*> (entry.bytes + entry.fresh))[: entry.value_size]))
        at += step + entry.fresh + entry.value_size
    return found


cdef inline int compare_keys(const uint8_t* a, int64_t a_size, const uint8_t* b, int64_t b_size) noexcept nogil:
    cdef int64_t both = min(a_size, b_size), at = 0
    cdef uint64_t x = 0, y = 0
    cdef int order = 0
    # Rows differ early. A call of memcmp costs more.
    while at + 8 <= both and at < 64:
        x, y = load_be64(a + at), load_be64(b + at)
        if x != y:
            return 1 if x > y else -1
        at += 8
    if 8 <= both < at + 8:
        x, y = load_be64(a + both - 8), load_be64(b + both - 8)
        order = (x > y) - (x < y)
    elif at < both:
        order = memcmp(a + at, b + at, both - at)
    return order if order else (a_size > b_size) - (a_size < b_size)


cdef inline int64_t shared_bytes(const uint8_t* a, int64_t a_size, const uint8_t* b, int64_t b_size) noexcept nogil:
    cdef int64_t at = 0, both = min(a_size, b_size)
    while at + 8 <= both and load_le64(a + at) == load_le64(b + at):
        at += 8
    while at < both and a[at] == b[at]:
        at += 1
    return at


cdef inline uint64_t head_of(const uint8_t* key, int64_t size, int64_t at) noexcept nogil:
    """Eight bytes of a key from an offset on, with zeros behind its end, as a number that sorts."""
    cdef uint64_t head = 0
    cdef int64_t i
    if size - at >= 8:
        return load_be64(key + at)
    if size >= 8 and size > at:
        return load_be64(key + size - 8) << (8 * (at + 8 - size))
    for i in range(at, at + 8):
        head = head << 8 | (key[i] if i < size else 0)
    return head
