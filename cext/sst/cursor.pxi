# Walks through a run: SST files that follow each other, or the records of an overlay.

cdef enum Step:
    AT_ENTRY
    AT_END
    TABLE_NEEDED                # the next file of the run
    WINDOW_NEEDED               # bytes of the file: the next block
    BODY_NEEDED                 # the next block, decompressed by Python
    FAILED
    CHUNK_FULL
    ROOM_NEEDED                 # for a record that is larger than a chunk

cdef enum:
    PREFETCHED = 8              # records ahead

cdef struct Bounds:
    const uint8_t* first        # NULL: from the first key
    const uint8_t* end          # NULL: to the last key
    int64_t first_size, end_size

cdef struct Cursor:
    # The entry. Its key and value are good until the next one is read.
    const uint8_t* key
    const uint8_t* value
    int64_t key_size, value_size
    uint64_t sequence
    int64_t shared              # bytes that it shares with the key before it, or less
    int kind

    int number                  # of the run: the newest has 0
    bint seeking                # entries before the first bound may follow
    # The block.
    const uint8_t* block
    int64_t at, end
    int64_t readable            # bytes from its begin on that may be read, also those behind its end
    bint is_plain               # no bound is in it, and it is of no ingested file
    uint64_t block_offset       # in the file; what errors name
    GrowableBuffer plain        # the block, once it is decompressed
    GrowableBuffer key_buffer   # the internal key of the last entry
    int64_t internal_size
    # The index.
    const uint8_t* index
    uint64_t index_offset       # in the file
    int64_t index_at, index_end
    GrowableBuffer index_key
    int64_t index_key_size
    GrowableBuffer before_key   # the user key of the entry of the index before this one: no block has an earlier one
    int64_t before_size
    uint64_t handle_offset, handle_size
    uint64_t handle_end         # where the next block may begin
    bint has_handle             # it is the next block's
    bint is_last                # keys of the file behind the next block are behind the end bound
    bint ended                  # and so are all that follow, or there are none
    # Bytes of the file.
    const uint8_t* window
    uint64_t window_start, window_size
    # The file.
    uint64_t data_end           # blocks lie before it
    uint64_t most_plain         # bytes of a block once decompressed
    int checksum
    uint32_t context
    bint delta_values, user_keys, ingested
    uint64_t ingested_sequence
    # The overlay.
    const Record* record
    const Record* records_end
    # What is looked at once in a file, or a block.
    const uint8_t* smallest     # the internal key of which the MANIFEST says that it is the first one
    int64_t smallest_size
    bint has_tombstones
    bint has_sizes              # compressed blocks begin with their size as a varint
    bint is_first               # the next block is the first one of the file

    Fault fault


cdef void cursor_free(Cursor* c) noexcept nogil:
    buffer_free(&c.plain)
    buffer_free(&c.key_buffer)
    buffer_free(&c.index_key)
    buffer_free(&c.before_key)


cdef inline int64_t index_user_size(const Cursor* c) noexcept nogil:
    return c.index_key_size if c.user_keys else c.index_key_size - 8


cdef inline Step failed(Cursor* c, Fault fault) noexcept nogil:
    c.fault = fault
    return FAILED


cdef Step advance(Cursor* c, const Bounds* bounds) noexcept nogil:
    """Goes to the next entry between the bounds, or says what is missing. It goes on when that is there."""
    cdef Step step
    if c.record != NULL:
        return next_record(c, bounds)
    if c.fault != NO_FAULT:
        return FAILED
    while True:
        while c.at < c.end:
            step = next_entry(c)
            if step != AT_ENTRY:
                return step
            if c.seeking:
                if compare_keys(c.key, c.key_size, bounds.first, bounds.first_size) < 0:
                    continue
                c.seeking = False
            if bounds.end != NULL and compare_keys(c.key, c.key_size, bounds.end, bounds.end_size) >= 0:
                c.at = c.end
                c.ended = True
                return AT_END
            return AT_ENTRY
        if not c.has_handle:
            # plain.pxi does not keep c.key.
            if c.internal_size and compare_keys(
                c.key_buffer.data, c.internal_size - 8, c.index_key.data, index_user_size(c)
            ) > 0:
                return failed(c, BAD_INDEX)
            # The last key of an index may be far behind its block, and the next file before the bound.
            if c.ended or (c.is_last and c.index_at < c.index_end):
                return AT_END
            if c.index_at >= c.index_end:
                return TABLE_NEEDED
            step = next_handle(c, bounds)
            if step != AT_ENTRY:
                return step
            continue
        step = next_block(c, bounds)
        if step != AT_ENTRY:
            return step


cdef inline Step next_entry(Cursor* c) noexcept nogil:
    cdef Entry entry
    cdef const uint8_t* p = c.block + c.at
    cdef Py_ssize_t step = entry_sizes(p, c.end - c.at, True, &entry)
    cdef int64_t size = entry.shared + entry.fresh
    cdef uint64_t trailer
    if step == 0 or entry.shared > c.internal_size:
        return failed(c, BAD_ENTRY)
    if size < 8:
        return failed(c, BAD_KEY)
    if size + SLACK > c.key_buffer.capacity and not buffer_need(&c.key_buffer, size + SLACK):
        return failed(c, NO_MEMORY)
    copy_bytes(c.key_buffer.data + entry.shared, entry.bytes, entry.fresh)
    c.internal_size = size
    c.at += step + entry.fresh + entry.value_size
    trailer = load_le64(c.key_buffer.data + size - 8)
    c.key = c.key_buffer.data
    c.key_size = size - 8
    c.shared = entry.shared
    c.value = entry.bytes + entry.fresh
    c.value_size = entry.value_size
    c.kind = trailer & 0xFF
    c.sequence = trailer >> 8
    if c.ingested:
        if c.sequence != 0 and c.sequence != c.ingested_sequence:
            return failed(c, BAD_SEQUENCE)
        c.sequence = c.ingested_sequence
    if c.kind > MERGE and c.kind != SINGLE_DELETION:
        return failed(c, BAD_KIND)
    return AT_ENTRY


cdef Step failed_in_index(Cursor* c, Fault fault) noexcept nogil:
    c.block_offset = c.index_offset
    return failed(c, fault)


cdef Step next_handle(Cursor* c, const Bounds* bounds) noexcept nogil:
    """Reads the next entry of the index, and skips it if its block is before the first bound."""
    cdef Entry entry
    cdef uint64_t offset = c.handle_offset, size = c.handle_size
    cdef Py_ssize_t step = entry_sizes(
        c.index + c.index_at, c.index_end - c.index_at, not c.delta_values, &entry
    )
    cdef const uint8_t* value = entry.bytes + entry.fresh
    cdef int64_t left = entry.value_size, user_size
    if step == 0 or entry.shared > c.index_key_size:
        return failed_in_index(c, BAD_ENTRY)
    c.before_size = max(index_user_size(c), 0)
    c.index_key_size = entry.shared + entry.fresh
    if not buffer_need(&c.index_key, c.index_key_size + SLACK) or not buffer_need(&c.before_key, c.before_size + 1):
        return failed(c, NO_MEMORY)
    copy_bytes(c.before_key.data, c.index_key.data, c.before_size)
    copy_bytes(c.index_key.data + entry.shared, entry.bytes, entry.fresh)
    c.index_at += step + entry.fresh + entry.value_size
    if c.delta_values:
        left = c.index_end - c.index_at
    step = read_handle(value, left, c.delta_values and entry.shared, &offset, &size)
    if step == 0:
        return failed_in_index(c, BAD_HANDLE)
    if c.delta_values:
        c.index_at += step
    if offset > c.data_end or c.data_end - offset < TRAILER or size > c.data_end - offset - TRAILER:
        return failed_in_index(c, BAD_HANDLE)
    if size > INT32_MAX - SLACK:
        return failed_in_index(c, TOO_LARGE)
    user_size = index_user_size(c)
    if user_size < 0:
        return failed_in_index(c, BAD_KEY)
    if offset < c.handle_end or compare_keys(c.before_key.data, c.before_size, c.index_key.data, user_size) > 0:
        return failed_in_index(c, BAD_INDEX)
    c.is_first = c.handle_end == 0
    c.handle_offset = offset
    c.handle_size = size
    c.handle_end = offset + size + TRAILER
    if c.seeking and compare_keys(c.index_key.data, user_size, bounds.first, bounds.first_size) < 0:
        return AT_ENTRY
    c.is_last = bounds.end != NULL and compare_keys(c.index_key.data, user_size, bounds.end, bounds.end_size) >= 0
    c.has_handle = True
    return AT_ENTRY


cdef Step next_block(Cursor* c, const Bounds* bounds) noexcept nogil:
    cdef uint64_t size = c.handle_size, plain = 0
    cdef const uint8_t* p
    cdef Py_ssize_t at
    cdef int compression
    if (
        c.handle_offset < c.window_start
        or c.handle_offset - c.window_start > c.window_size
        or size + TRAILER > c.window_size - (c.handle_offset - c.window_start)
    ):
        return WINDOW_NEEDED
    p = c.window + (c.handle_offset - c.window_start)
    c.block_offset = c.handle_offset
    if not is_whole(p, size, c.checksum, c.context, c.handle_offset):
        return failed(c, BAD_CHECKSUM)
    compression = p[size]
    if compression == NO_COMPRESSION:
        return begin_block(c, bounds, p, size, size + TRAILER)
    if (compression != LZ4 and compression != LZ4HC) or not c.has_sizes:
        return BODY_NEEDED
    at = plain_size(p, size, &plain)
    # No byte of a body decompresses to more than 255.
    if at == 0 or plain // 255 > size:
        return failed(c, BAD_BODY)
    if plain > c.most_plain:
        return failed(c, TOO_MUCH)
    if not buffer_need(&c.plain, plain + SLACK):
        return failed(c, NO_MEMORY)
    if decompress_safe(<const char*> p + at, <char*> c.plain.data, <int> (size - at), <int> plain) != <int> plain:
        return failed(c, BAD_BODY)
    return begin_block(c, bounds, c.plain.data, plain, plain + SLACK)


cdef Step begin_block(
    Cursor* c, const Bounds* bounds, const uint8_t* block, int64_t size, int64_t readable
) noexcept nogil:
    cdef Entry entry
    c.has_handle = False
    c.is_plain = not (c.seeking or c.ingested or (bounds.end != NULL and c.is_last))
    c.block = block
    c.readable = readable
    c.at = 0
    c.end = entries_end(block, size)
    c.internal_size = 0
    if c.end < 0:
        return failed(c, HASHED_BLOCK if c.end == HAS_HASHES else BAD_BLOCK)
    # What does not fit in the first entry is told when it is read.
    if entry_sizes(block, c.end, True, &entry) and entry.fresh >= 8:
        if compare_keys(entry.bytes, entry.fresh - 8, c.before_key.data, c.before_size) < 0:
            return failed(c, BAD_INDEX)
        if c.is_first and not is_bound(
            c, c.smallest, c.smallest_size, compare_keys(c.smallest, c.smallest_size - 8, entry.bytes, entry.fresh - 8)
        ):
            return failed(c, BAD_RANGE)
    return AT_ENTRY


cdef inline bint is_bound(const Cursor* c, const uint8_t* internal, int64_t size, int beyond) noexcept nogil:
    """Whether an internal key of the MANIFEST bounds the file, whose first or last key is `beyond` it.

    It is that key, unless the bound is that of a range deletion.
    """
    return beyond == 0 or (beyond < 0 and (c.has_tombstones or internal[size - 8] == RANGE_DELETION))


cdef Step next_record(Cursor* c, const Bounds* bounds) noexcept nogil:
    cdef const Record* record
    while c.record < c.records_end:
        record = c.record
        c.record += 1
        if c.records_end - record > PREFETCHED:
            # Keys lie in the order in which they came.
            buffer_prefetch(record[PREFETCHED].key)
            buffer_prefetch(record[PREFETCHED].key + 64)
        if record.kind == RANGE_DELETION:
            continue
        if c.seeking and compare_keys(record.key, record.key_size, bounds.first, bounds.first_size) < 0:
            continue
        c.seeking = False
        c.key = record.key
        c.key_size = record.key_size
        c.value = record.key + record.key_size
        c.value_size = record.value_size
        c.sequence = record.sequence
        c.kind = record.kind
        if bounds.end != NULL and compare_keys(c.key, c.key_size, bounds.end, bounds.end_size) >= 0:
            c.record = c.records_end
            return AT_END
        return AT_ENTRY
    return AT_END


cdef inline bint is_before(const Cursor* a, const Cursor* b) noexcept nogil:
    """Whether the entry of `a` comes first: the smaller key, and of equal keys the newer entry."""
    cdef int order = compare_keys(a.key, a.key_size, b.key, b.key_size)
    if order:
        return order < 0
    if a.sequence != b.sequence:
        return a.sequence > b.sequence
    return a.number < b.number
