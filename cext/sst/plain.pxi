# The short way of a merge, which most rows take: values of keys that differ in their heads, in blocks that no bound
# cuts. Of an entry only the head is found at first. The entry is read when its turn comes, straight into the chunk.

cdef enum:
    SHORT = 64                  # bytes of a key or a value that are copied without a branch on the size
    FRESH = 32                  # and of the fresh bytes of a key
    COPIED = 128                # from an entry on, such copies touch less

cdef struct Peeked:             # an entry
    int64_t shared, fresh, value_size
    uint64_t head


cdef bint merge_plain(Queue* queue, Chunk* chunk, const Bounds* bounds, Taken* last) noexcept nogil:
    """Takes entries as long as each is a value of a new key or is older than the last one, and returns whether it did.

    All else takes the long way. The caller has made sure that nothing but entries counts: there are no range deletions,
    and no operands wait for a value.
    """
    cdef Cursor* c
    cdef bint any_taken = False
    cdef uint64_t limit, head
    while queue.placed and queue.has_last_head and queue.unplaced == 0 and not queue.is_stale:
        limit = find_best(queue)
        head = queue.heads[queue.best]
        if head == limit or head <= queue.last_head:
            read_peeked(queue)
            break_ties(queue)
        c = queue.order[queue.best]
        if c.is_peeked:
            if not take_peeked(c, chunk, queue, limit, last):
                break
        else:
            if head > queue.last_head:
                if c.kind != VALUE or not has_room(chunk, c.key_size + c.value_size):
                    break
                last.key = append_key(chunk, c.key, c.key_size)
                last.key_size = c.key_size
                append_value(chunk, c.value, c.value_size)
                queue.last_head = head
            elif (
                head < queue.last_head
                or compare_keys(last.key, last.key_size, c.key, c.key_size) != 0
                or c.sequence > last.sequence or (c.sequence == last.sequence and c.number == last.number)
            ):
                break
            last.sequence = c.sequence
            last.number = c.number
            peek_first(c, queue)
        any_taken = True
        if not c.is_peeked:
            step_best(queue, bounds, last.key)
    read_peeked(queue)
    return any_taken


cdef void read_peeked(Queue* queue) noexcept nogil:
    """Reads the entries at hand of which only the heads are known. They are whole."""
    cdef int i
    for i in range(queue.placed):
        if queue.order[i].is_peeked:
            queue.order[i].is_peeked = False
            next_entry(queue.order[i])


cdef inline void peek_first(Cursor* c, Queue* queue) noexcept nogil:
    """Lets the best cursor, whose entry is done, go on to the next one, if the short way can take that."""
    cdef Peeked next
    if c.is_plain and peek(
        c.block + c.at, c.end - c.at, &c.key_buffer, c.key_size, queue.shared, queue.heads[queue.best], &next
    ):
        c.is_peeked = True
        queue.heads[queue.best] = next.head


cdef inline bint peek(
    const uint8_t* p, int64_t left, const GrowableBuffer* key, int64_t key_size, int64_t shared, uint64_t head,
    Peeked* next
) noexcept nogil:
    """Finds the sizes and the head of an entry. False: it is no value, or its key does not share what heads leave out.

    Args:
        p, left: the entry, and the bytes to the end of the entries.
        key, key_size, head: of the entry before it.
        shared: bytes that heads leave out.
    """
    cdef int64_t size
    if left < 3 or (p[0] | p[1] | p[2]) >= 0x80:
        return False
    next.shared, next.fresh, next.value_size = p[0], p[1], p[2]
    size = next.shared + next.fresh - 8
    if (
        next.shared > key_size or next.fresh < 8 or size < shared or next.fresh + next.value_size > left - 3
        or size + 8 + SLACK > key.capacity or p[next.fresh - 5] != VALUE
    ):
        return False
    if next.shared < shared and memcmp(p + 3, key.data + next.shared, shared - next.shared) != 0:
        return False
    next.head = head_behind(head, p + 3, next.shared - shared, size - shared)
    return True


cdef inline uint64_t head_behind(uint64_t head, const uint8_t* fresh, int64_t before, int64_t size) noexcept nogil:
    """The head of a key by that of the key before it.

    Args:
        fresh: its fresh bytes, with the 8 bytes behind the key.
        before, size: where they begin, and where the key ends, counted from the first byte of heads.
    """
    cdef uint64_t mask
    if before <= 0:
        head = load_be64(fresh - before)
    elif before < 8:
        mask = UINT64_MAX >> (8 * before)
        head = (head & ~mask) | (load_be64(fresh) >> (8 * before))
    return head if size >= 8 else head & ~(UINT64_MAX >> (8 * size))


cdef inline bint take_peeked(Cursor* c, Chunk* chunk, Queue* queue, uint64_t limit, Taken* last) noexcept nogil:
    """Takes the peeked entry of the best cursor, and those behind it up to a head.

    Returns:
        False: there is no room for the first one.
    """
    cdef uint8_t* key_buffer = c.key_buffer.data
    cdef const uint8_t* p = c.block + c.at
    cdef const uint8_t* end = c.block + c.end
    cdef const uint8_t* copy_end = c.block + c.readable - COPIED
    cdef uint8_t* out = chunk.data + chunk.filled
    cdef uint8_t* out_end = chunk.data + chunk.capacity
    cdef int64_t count = chunk.count, key_size = 0
    cdef uint64_t head = 0
    cdef Peeked next
    next.shared, next.fresh, next.value_size, next.head = p[0], p[1], p[2], queue.heads[queue.best]
    if not has_room(chunk, next.shared + next.fresh - 8 + next.value_size):
        return False
    while True:
        key_size = next.shared + next.fresh - 8
        head = next.head
        chunk.keys[2 * count] = <int32_t> (out - chunk.data)
        chunk.keys[2 * count + 1] = <int32_t> key_size
        chunk.values[2 * count] = <int32_t> (out + key_size - chunk.data)
        chunk.values[2 * count + 1] = <int32_t> next.value_size
        count += 1
        last.key = out
        p += 3
        if p <= copy_end and next.fresh <= FRESH and key_size <= SHORT and next.value_size <= SHORT:
            # The shared bytes come from the key before. What was just written could not be read again at once.
            memcpy(out, key_buffer, SHORT)
            memcpy(out + next.shared, p, FRESH)
            memcpy(key_buffer + next.shared, p, FRESH)
            memcpy(out + key_size, p + next.fresh, SHORT)
        else:
            copy_bytes(key_buffer + next.shared, p, next.fresh)
            copy_bytes(out, key_buffer, key_size)
            copy_bytes(out + key_size, p + next.fresh, next.value_size)
        out += key_size + next.value_size
        p += next.fresh
        last.sequence = load_le64(p - 8) >> 8
        p += next.value_size
        c.is_peeked = peek(p, end - p, &c.key_buffer, key_size, queue.shared, head, &next)
        if (
            not c.is_peeked or not head < next.head < limit or count == chunk.max_count
            or next.shared + next.fresh - 8 + next.value_size > out_end - out
        ):
            break
    last.key_size = key_size
    last.number = c.number
    queue.last_head = head
    if c.is_peeked:
        queue.heads[queue.best] = next.head
    chunk.filled = out - chunk.data
    chunk.count = count
    c.at = p - c.block
    c.internal_size = key_size + 8
    return True
