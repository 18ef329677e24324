# The short way of a merge, which most rows take: values of keys that differ in their heads, in blocks that no bound
# cuts. It keeps in registers what the long way keeps in the cursor.


cdef bint merge_plain(Queue* queue, Chunk* chunk, const Bounds* bounds, Taken* last) noexcept nogil:
    """Takes entries as long as each is a value of a new key or is older than the last one, and returns whether it did.

    All else takes the long way. The caller has made sure that nothing but entries counts: there are no range deletions,
    and no operands wait for a value.
    """
    cdef Cursor* c
    cdef bint any_taken = False, is_older
    cdef uint64_t limit
    while queue.has_last_head and queue.unplaced == 0 and not queue.is_stale:
        limit = find_best(queue)
        if queue.heads[queue.best] == limit:
            break_ties(queue)
        c = queue.order[queue.best]
        is_older = queue.heads[queue.best] == queue.last_head
        if is_older:
            if (
                compare_keys(last.key, last.key_size, c.key, c.key_size) != 0
                or c.sequence > last.sequence or (c.sequence == last.sequence and c.number == last.number)
            ):
                break
        elif queue.heads[queue.best] < queue.last_head or c.kind != VALUE or not has_room(
            chunk, c.key_size + c.value_size
        ):
            break
        any_taken = True
        if not take_entries(c, chunk, queue, limit, last, is_older):
            step_best(queue, bounds, last.key)
    return any_taken


cdef inline bint take_entries(
    Cursor* c, Chunk* chunk, Queue* queue, uint64_t limit, Taken* last, bint is_older
) noexcept nogil:
    """Takes the entry of the best cursor, for which there is room, and those behind it up to a head.

    Args:
        is_older: the first entry is left out: its key is that of the last one.

    Returns:
        whether the cursor stands at its next entry; otherwise it is still at the last one that was taken.
    """
    cdef uint8_t* key_buffer = c.key_buffer.data
    cdef const uint8_t* key = c.key
    cdef const uint8_t* value = c.value
    cdef const uint8_t* p
    cdef uint8_t* out
    cdef int64_t key_size = c.key_size, value_size = c.value_size, at = c.at, internal_size = c.internal_size
    cdef int64_t filled = chunk.filled, count = chunk.count, shared = queue.shared, left, size, fresh, before = c.shared
    cdef uint64_t head = queue.heads[queue.best], sequence = c.sequence, trailer
    cdef bint is_next = False, goes_on = True
    while goes_on:
        if is_older:
            is_older = False
        else:
            out = chunk.data + filled
            chunk.keys[2 * count] = <int32_t> filled
            chunk.keys[2 * count + 1] = <int32_t> key_size
            chunk.values[2 * count] = <int32_t> (filled + key_size)
            chunk.values[2 * count + 1] = <int32_t> value_size
            copy_bytes(out, key, key_size)
            copy_bytes(out + key_size, value, value_size)
            filled += key_size + value_size
            count += 1
            queue.last_head = head
            last.key = out
            last.key_size = key_size
        last.sequence = sequence

        is_next = False
        p = c.block + at
        left = c.end - at
        if not c.is_plain or left < 3 or (p[0] | p[1] | p[2]) >= 0x80:
            break
        before, fresh = p[0], p[1]
        size = before + fresh - 8
        if (
            before > key_size or fresh < 8 or size < shared or fresh + p[2] > left - 3
            or before + fresh + SLACK > c.key_buffer.capacity
        ):
            break
        trailer = load_le64(p + fresh - 5)
        if trailer & 0xFF != VALUE:
            break
        if before < shared and memcmp(p + 3, key_buffer + before, shared - before) != 0:
            break
        head = next_head(head, p + 3, before - shared, size - shared)
        # The size of what is fresh varies: most of it is copied without a branch on the size.
        if fresh <= 32 and c.readable - at >= 3 + 32:
            memcpy(key_buffer + before, p + 3, 16)
            memcpy(key_buffer + before + 16, p + 19, 16)
        else:
            copy_bytes(key_buffer + before, p + 3, fresh)
        at += 3 + fresh + p[2]
        internal_size = before + fresh
        key = key_buffer
        key_size = size
        value = p + 3 + fresh
        value_size = p[2]
        sequence = trailer >> 8
        is_next = True
        goes_on = (
            queue.last_head < head < limit and count < chunk.max_count
            and filled + key_size + value_size <= chunk.capacity
        )
    last.number = c.number
    chunk.filled = filled
    chunk.count = count
    queue.heads[queue.best] = head
    c.at = at
    c.internal_size = internal_size
    c.key = key
    c.key_size = key_size
    c.shared = before
    c.value = value
    c.value_size = value_size
    c.sequence = sequence
    if is_next:
        c.kind = VALUE
    return is_next


cdef inline uint64_t next_head(uint64_t head, const uint8_t* fresh, int64_t before, int64_t size) noexcept nogil:
    """The head of the key behind that of a head, from its fresh bytes.

    Args:
        before, size: where its fresh bytes begin, and where it ends, counted from the first byte of heads.
    """
    cdef uint64_t mask
    if before < 0:
        return head_of(fresh, size - before, -before)
    if before >= 8:
        return head
    mask = UINT64_MAX >> (8 * before)
    head = (head & ~mask) | (load_be64(fresh) >> (8 * before))
    return head if size >= 8 else head & ~(UINT64_MAX >> (8 * size))
