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
    int64_t* active             # the newest first
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
    cdef int64_t i, kept
    cdef int order
    while stones.next < stones.count:
        stone = stones.all + stones.next
        if compare_keys(stone.first, stone.first_size, key, size) > 0:
            break
        i = stones.num_active
        while i > 0 and stones.all[stones.active[i - 1]].sequence < stone.sequence:
            stones.active[i] = stones.active[i - 1]
            i -= 1
        stones.active[i] = stones.next
        stones.num_active += 1
        stones.next += 1
    i = kept = 0
    while i < stones.num_active:
        stone = stones.all + stones.active[i]
        if stone.sequence <= sequence:
            break
        order = compare_keys(key, size, stone.end, stone.end_size)
        if order > 0 or (order == 0 and stone.end_limit == NONE_AT_END):
            i += 1
            continue  # it has ended
        stones.active[kept] = stones.active[i]
        kept += 1
        i += 1
        if (order < 0 or sequence >= stone.end_limit) and (
            sequence <= stone.first_limit or compare_keys(key, size, stone.first, stone.first_size) > 0
        ):
            tombstones_close(stones, i, kept)
            return True
    tombstones_close(stones, i, kept)
    return False


cdef inline void tombstones_close(Tombstones* stones, int64_t done, int64_t kept) noexcept nogil:
    """Closes the gap that ended range deletions have left."""
    if done == kept:
        return
    while done < stones.num_active:
        stones.active[kept] = stones.active[done]
        kept += 1
        done += 1
    stones.num_active = kept
