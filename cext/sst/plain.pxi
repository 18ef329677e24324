# The short way of a merge, which most rows take: values of keys that differ in their heads, in blocks that no bound
# cuts. Of an entry only the head is found at first. The entry is read when its turn comes, straight into the chunk.
#
# A row takes the time from one choice among the runs to the next. The head of the next entry is known by then: the
# choice waits for no byte of a block.

cdef enum:
    SHORT = 64                  # bytes of a key or a value that are copied without a branch on the size
    FRESH = 32                  # and of the fresh bytes of a key
    COPIED = 128                # from an entry on, such copies touch less


cdef bint merge_plain(Queue* queue, Chunk* chunk, const Bounds* bounds, Taken* last) noexcept nogil:
    """Takes entries as long as each is a value of a new key or is older than the last one, and returns whether it did.

    All else takes the long way. The caller has made sure that nothing but entries counts: there are no range deletions,
    and no operands wait for a value.
    """
    cdef Cursor* c
    cdef int64_t count
    cdef int other
    cdef bint any_taken = False, is_done, are_several
    cdef uint64_t head
    while queue.placed and queue.has_last_head and queue.unplaced == 0 and not queue.is_stale:
        are_several = find_best(queue.heads, queue.placed, &queue.best)
        head = queue.heads[queue.best]
        if are_several and queue.placed == 2 and take_update(queue, chunk, bounds, last):
            any_taken = True
            continue
        if queue.lanes[queue.best].at != NULL and not are_several and head > queue.last_head:
            count = chunk.count
            other = 1 - queue.best
            if queue.placed == 1:
                is_done = take_lanes(queue, chunk, last, 0, 1, UINT64_MAX)
            elif queue.placed == 2 and queue.lanes[other].at == NULL:
                # It is often an overlay, which is seldom next.
                is_done = take_lanes(queue, chunk, last, queue.best, 1, queue.heads[other])
            elif queue.placed <= FEW_LANES:
                is_done = take_lanes(queue, chunk, last, 0, FEW_LANES, UINT64_MAX)
            else:
                is_done = take_lanes(queue, chunk, last, 0, queue.placed, UINT64_MAX)
            if chunk.count == count:
                break
            any_taken = True
            if not is_done:
                continue
        else:
            if are_several or queue.lanes[queue.best].at != NULL:
                read_lanes(queue, head)
            if are_several:
                break_ties(queue)
            c = queue.order[queue.best]
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
            any_taken = True
            if begin_lane(queue):
                continue
        step_best(queue, bounds, last.key)
    read_lanes(queue, UINT64_MAX)
    return any_taken


cdef inline bint take_update(Queue* queue, Chunk* chunk, const Bounds* bounds, Taken* last) noexcept nogil:
    """Takes the record of an overlay, and with it what is older: the overlay's other records of its key, and the entry
    of the only lane, which is of this key, too.

    Returns:
        False: they are not so simple, and are still to be taken.
    """
    cdef int number = 0 if queue.lanes[0].at != NULL else 1
    cdef Lane* lane = &queue.lanes[number]
    cdef Cursor* overlay = queue.order[1 - number]
    cdef const Record* older
    cdef const uint8_t* p = lane.at
    cdef int64_t shared, fresh
    if (
        p == NULL or lane.next == NULL or overlay.record == NULL or queue.heads[number] <= queue.last_head
        or (overlay.kind != VALUE and overlay.kind != DELETION)
    ):
        return False
    shared, fresh = p[0], p[1] - 8
    if shared + fresh != overlay.key_size or not has_room(chunk, overlay.key_size + overlay.value_size):
        return False
    copy_bytes(lane.key + shared, p + 3, fresh)
    if compare_keys(lane.key, overlay.key_size, overlay.key, overlay.key_size) != 0:
        return False
    last.key = overlay.key
    if overlay.kind == VALUE:
        last.key = append_key(chunk, overlay.key, overlay.key_size)
        append_value(chunk, overlay.value, overlay.value_size)
    last.key_size = overlay.key_size
    older = overlay.record
    while older < overlay.records_end and compare_keys(older.key, older.key_size, last.key, last.key_size) == 0:
        older += 1
    overlay.record = older
    last.sequence = load_le64(p + 3 + fresh) >> 8
    last.number = queue.order[number].number
    queue.last_head = queue.heads[number]
    lane.key_size = overlay.key_size
    lane.at = lane.next
    queue.heads[number] = lane.next_head
    peek_next(lane, queue.shared)
    queue.best = 1 - number
    step_best(queue, bounds, last.key)
    return True


cdef void read_lanes(Queue* queue, uint64_t last) noexcept nogil:
    """Reads the entries at hand of which only the heads are known, up to a head. They are whole."""
    cdef int i
    for i in range(queue.placed):
        if queue.lanes[i].at != NULL and queue.heads[i] <= last:
            end_lane(&queue.lanes[i], queue.order[i], queue.lanes[i].at)
            next_entry(queue.order[i])


cdef inline void end_lane(Lane* lane, Cursor* c, const uint8_t* at) noexcept nogil:
    """Lets the cursor know that the entries before `at` are done."""
    lane.at = NULL
    c.at = at - c.block
    c.internal_size = lane.key_size + 8


cdef inline bint begin_lane(Queue* queue) noexcept nogil:
    """Lets the best cursor, whose entry is done, go on to the next one, if the short way can take that."""
    cdef Cursor* c = queue.order[queue.best]
    cdef Lane* lane = &queue.lanes[queue.best]
    if not c.is_plain:
        return False
    lane.end = c.block + c.end
    lane.copy_end = c.block + c.readable - COPIED
    lane.key = c.key_buffer.data
    lane.key_size = c.key_size
    lane.most = c.key_buffer.capacity - SLACK - 8
    if not peek(c.block + c.at, lane, c.key_size, queue.shared, &queue.heads[queue.best]):
        return False
    lane.at = c.block + c.at
    lane.next_head = queue.heads[queue.best]
    peek_next(lane, queue.shared)
    return True


cdef inline void peek_next(Lane* lane, int64_t shared_by_all) noexcept nogil:
    """Finds the head of the entry behind the one at hand; lane.next_head is that of the one at hand."""
    cdef const uint8_t* at = lane.at
    cdef const uint8_t* next = at + 3 + at[1] + at[2]
    lane.next = next if peek(next, lane, <int64_t> at[0] + at[1] - 8, shared_by_all, &lane.next_head) else NULL


cdef inline bint peek(
    const uint8_t* p, const Lane* lane, int64_t key_size, int64_t shared_by_all, uint64_t* head
) noexcept nogil:
    """Finds the head of an entry. False: it is no value, or its key does not share what heads leave out.

    Args:
        p: the entry.
        shared_by_all: bytes that heads leave out.
        head: of the entry before it, which is overwritten.
    """
    cdef int64_t left = lane.end - p, shared, fresh, value_size, size
    if left < 3 or (p[0] | p[1] | p[2]) >= 0x80:
        return False
    shared, fresh, value_size = p[0], p[1], p[2]
    size = shared + fresh - 8
    # One branch for all: a difference below zero has the highest bit.
    if (
        (key_size - shared) | (fresh - 8) | (size - shared_by_all) | (left - 3 - fresh - value_size)
        | (lane.most - size)
    ) < 0 or p[fresh - 5] != VALUE:
        return False
    if shared < shared_by_all and memcmp(p + 3, lane.key + shared, shared_by_all - shared) != 0:
        return False
    head[0] = head_behind(head[0], p + 3, shared - shared_by_all, size - shared_by_all)
    return True


cdef inline uint64_t head_behind(uint64_t head, const uint8_t* fresh, int64_t before, int64_t size) noexcept nogil:
    """The head of a key by that of the key before it.

    Args:
        fresh: its fresh bytes, with the 8 bytes behind the key.
        before, size: where they begin, and where the key ends, counted from the first byte of heads.
    """
    cdef uint64_t mask
    if before < 0:
        head = load_be64(fresh - before)
    elif before < 8:
        mask = UINT64_MAX >> (8 * before)
        head = (head & ~mask) | (load_be64(fresh) >> (8 * before))
    return head if size >= 8 else head & ~(UINT64_MAX >> (8 * size))


cdef inline bint take_lanes(
    Queue* queue, Chunk* chunk, Taken* last, int first, int num_lanes, uint64_t limit
) noexcept nogil:
    """Takes entries of lanes in the order of their heads, for as long as these grow and differ.

    Args:
        first, num_lanes: the lanes; behind those of cursors that have an entry there may be more.
        limit: takes entries whose heads are below it.

    Returns:
        True: the cursor of the last one, which is the best, has to go on to its next entry. False: the first entry is
        in no lane, or its head is another's, too, or there is no room for it.
    """
    cdef uint64_t* heads = queue.heads + first
    cdef uint64_t few[FEW_LANES]  # the heads of few lanes, which stay in registers
    cdef Lane* lanes = queue.lanes + first
    cdef Lane* lane
    cdef int32_t* keys = chunk.keys
    cdef int32_t* values = chunk.values
    cdef uint8_t* data = chunk.data
    cdef uint8_t* out = data + chunk.filled
    cdef uint8_t* out_end = data + chunk.capacity
    cdef uint8_t* key
    cdef const uint8_t* p
    cdef const uint8_t* trailer = NULL
    cdef int64_t count = chunk.count, max_count = chunk.max_count, shared_by_all = queue.shared
    cdef int64_t shared, fresh, key_size = 0, value_size
    cdef uint64_t head = 0, last_head = queue.last_head
    cdef int i, best = 0
    cdef bint is_done = False, are_several
    for best in range(queue.placed - first, num_lanes):
        heads[best] = UINT64_MAX
    if num_lanes == FEW_LANES:
        for i in range(FEW_LANES):
            few[i] = heads[i]
    while True:
        if num_lanes == FEW_LANES:
            are_several = find_best_of_few(few, &best, &head)
        else:
            are_several = find_best(heads, num_lanes, &best)
            head = heads[best]
        lane = &lanes[best]
        p = lane.at
        if p == NULL or are_several or head <= last_head or head >= limit:
            break
        shared, fresh, value_size = p[0], p[1], p[2]
        if count == max_count or shared + fresh - 8 + value_size > out_end - out:
            break
        key_size = shared + fresh - 8
        keys[2 * count] = <int32_t> (out - data)
        keys[2 * count + 1] = <int32_t> key_size
        values[2 * count] = <int32_t> (out + key_size - data)
        values[2 * count + 1] = <int32_t> value_size
        count += 1
        p += 3
        trailer = p + fresh - 8
        key = lane.key
        if p <= lane.copy_end and fresh <= FRESH and key_size <= SHORT and value_size <= SHORT:
            # The shared bytes come from the key before. What was just written could not be read again at once.
            memcpy(out, key, SHORT)
            memcpy(out + shared, p, FRESH)
            memcpy(key + shared, p, FRESH)
            memcpy(out + key_size, p + fresh, SHORT)
        else:
            copy_bytes(key + shared, p, fresh)
            copy_bytes(out, key, key_size)
            copy_bytes(out + key_size, p + fresh, value_size)
        out += key_size + value_size
        p += fresh + value_size
        last_head = head
        last.number = best
        lane.key_size = key_size
        lane.at = lane.next
        if lane.at == NULL:
            is_done = True
            end_lane(lane, queue.order[first + best], p)
            break
        if num_lanes == FEW_LANES:
            for i in range(FEW_LANES):
                few[i] ^= (few[i] ^ lane.next_head) & (0 - <uint64_t> (best == i))
        else:
            heads[best] = lane.next_head
        peek_next(lane, shared_by_all)
    if num_lanes == FEW_LANES:
        for i in range(FEW_LANES):
            heads[i] = few[i]
    queue.best = first + best
    if trailer != NULL:
        last.number = queue.order[first + last.number].number
        last.sequence = load_le64(trailer) >> 8
        last.key = data + keys[2 * count - 2]
        last.key_size = keys[2 * count - 1]
        queue.last_head = last_head
        chunk.filled = out - data
        chunk.count = count
    return is_done
