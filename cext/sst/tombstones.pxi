# Range deletions, in the order of their first keys. Those that may cover the key at hand are active.

cdef struct Tombstone:
    const uint8_t* first
    const uint8_t* end
    int64_t first_size, end_size
    uint64_t sequence
    # A file's range deletions hold between its smallest and its largest internal key. So at the first key only entries
    # up to a sequence number are deleted, and at the end only those from one on (NONE_AT_END: none).
    uint64_t first_limit, end_limit

cdef struct Tombstones:
    Tombstone* all
    int64_t count, capacity
    int64_t next                # the first one that is not active yet
    int64_t* active             # a heap: no parent is older than its children
    int64_t num_active

cdef uint64_t NONE_AT_END = UINT64_MAX


cdef int by_first_key(const void* a, const void* b) noexcept nogil:
    cdef const Tombstone* x = <const Tombstone*> a
    cdef const Tombstone* y = <const Tombstone*> b
    return compare_keys(x.first, x.first_size, y.first, y.first_size)


cdef bint tombstones_add(Tombstones* stones, Tombstone stone) noexcept nogil:
    """The caller sorts them afterwards. False: no memory."""
    cdef int64_t capacity = max(2 * stones.capacity, 16)
    cdef Tombstone* all
    cdef int64_t* active
    if stones.count == stones.capacity:
        all = <Tombstone*> realloc(stones.all, capacity * sizeof(Tombstone))
        if all == NULL:
            return False
        stones.all = all
        active = <int64_t*> realloc(stones.active, capacity * sizeof(int64_t))
        if active == NULL:
            return False
        stones.active = active
        stones.capacity = capacity
    stones.all[stones.count] = stone
    stones.count += 1
    return True


cdef void tombstones_sort(Tombstones* stones) noexcept nogil:
    if stones.count > stones.next:
        qsort(stones.all + stones.next, stones.count - stones.next, sizeof(Tombstone), by_first_key)


cdef bint is_covered(
    Tombstones* stones, const uint8_t* key, int64_t size, uint64_t sequence
) noexcept nogil:
    """Whether a range deletion deletes the entry. Keys come in their order."""
    cdef Tombstone* stone
    while stones.next < stones.count:
        stone = stones.all + stones.next
        if compare_keys(stone.first, stone.first_size, key, size) > 0:
            break
        tombstones_push(stones)
    # The newest one decides, so those behind it may have ended.
    while stones.num_active and has_ended(stones.all + stones.active[0], key, size):
        tombstones_pop(stones)
    return is_covered_below(stones, 0, key, size, sequence)


cdef inline bint has_ended(const Tombstone* stone, const uint8_t* key, int64_t size) noexcept nogil:
    cdef int order = compare_keys(key, size, stone.end, stone.end_size)
    return order > 0 or (order == 0 and stone.end_limit == NONE_AT_END)


cdef bint is_covered_below(
    const Tombstones* stones, int64_t at, const uint8_t* key, int64_t size, uint64_t sequence
) noexcept nogil:
    """Whether the range deletion at a place of the heap, or one of those below it, deletes the entry."""
    cdef const Tombstone* stone
    if at >= stones.num_active:
        return False
    stone = stones.all + stones.active[at]
    if stone.sequence <= sequence:
        return False
    if (
        not has_ended(stone, key, size)
        and (sequence >= stone.end_limit or compare_keys(key, size, stone.end, stone.end_size) < 0)
        and (sequence <= stone.first_limit or compare_keys(key, size, stone.first, stone.first_size) > 0)
    ):
        return True
    return (
        is_covered_below(stones, 2 * at + 1, key, size, sequence)
        or is_covered_below(stones, 2 * at + 2, key, size, sequence)
    )


cdef void tombstones_push(Tombstones* stones) noexcept nogil:
    """Makes the next one active."""
    cdef int64_t at = stones.num_active, above
    cdef uint64_t sequence = stones.all[stones.next].sequence
    while at:
        above = (at - 1) // 2
        if stones.all[stones.active[above]].sequence >= sequence:
            break
        stones.active[at] = stones.active[above]
        at = above
    stones.active[at] = stones.next
    stones.num_active += 1
    stones.next += 1


cdef void tombstones_pop(Tombstones* stones) noexcept nogil:
    """Takes the newest active one away."""
    cdef int64_t at = 0, below, last
    stones.num_active -= 1
    last = stones.active[stones.num_active]
    while True:
        below = 2 * at + 1
        if below >= stones.num_active:
            break
        if (
            below + 1 < stones.num_active
            and stones.all[stones.active[below + 1]].sequence > stones.all[stones.active[below]].sequence
        ):
            below += 1
        if stones.all[stones.active[below]].sequence <= stones.all[last].sequence:
            break
        stones.active[at] = stones.active[below]
        at = below
    stones.active[at] = last
