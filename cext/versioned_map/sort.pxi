# Sorting in steps of a bounded number of entries: by their values, 11 bits at a time, the lowest first.

cdef enum:
    STEP_ENTRIES = 1 << 14  # that a step counts, moves or writes at most
    SORT_BITS = 11

cdef struct SortEntry:
    uint64_t value
    uint64_t at

cdef struct Sort:
    bint in_steps           # whether background work sorts
    GrowableBuffer entries
    GrowableBuffer other
    int64_t count
    uint64_t least          # of the values
    uint64_t most
    int shift               # how many bits of the values have been sorted by
    bint moving             # whether the pass under way has counted its entries
    int64_t done            # how many of them it has counted, or moved
    int64_t pages           # bytes of `other` that have their pages
    int64_t[1 << SORT_BITS] starts


cdef void sort_free(Sort* sort) noexcept nogil:
    buffer_free(&sort.entries)
    buffer_free(&sort.other)


cdef inline bint sort_add(Sort* sort, uint64_t value, uint64_t at, Fault* fault) noexcept nogil:
    if not need_buffer(&sort.entries, (sort.count + 1) * <int64_t> sizeof(SortEntry), sort.in_steps):
        fault.kind = OUT_OF_MEMORY
        return False
    (<SortEntry*> sort.entries.data)[sort.count] = SortEntry(value, at)
    sort.least = min(sort.least, value) if sort.count else value
    sort.most = max(sort.most, value) if sort.count else value
    sort.count += 1
    return True


cdef inline int64_t sort_bucket(const Sort* sort, const SortEntry* entry) noexcept nogil:
    return <int64_t> (((entry.value - sort.least) >> sort.shift) & ((1 << SORT_BITS) - 1))


cdef bint sort_step(Sort* sort, Fault* fault) noexcept nogil:
    """Goes on with sorting what was added. False: it is sorted and the rest freed, or there is a fault."""
    cdef const SortEntry* entries = <const SortEntry*> sort.entries.data
    cdef int64_t i, bucket, stop, n, total = 0
    if sort.count == 0 or sort.shift >= 64 or (sort.most - sort.least) >> sort.shift == 0:
        return buffer_free_some(&sort.other)
    stop = min(sort.done + STEP_ENTRIES, sort.count)
    if not sort.moving:
        if sort.done == 0:
            memset(sort.starts, 0, sizeof(sort.starts))
        for i in range(sort.done, stop):
            sort.starts[sort_bucket(sort, &entries[i])] += 1
        sort.done = stop
        if stop == sort.count:
            for i in range(1 << SORT_BITS):
                n = sort.starts[i]
                sort.starts[i] = total
                total += n
            sort.moving = True
            sort.done = 0
        return True
    if sort.other.data == NULL and not new_buffer(
        &sort.other, sort.count * <int64_t> sizeof(SortEntry), sort.in_steps
    ):
        fault.kind = OUT_OF_MEMORY
        return False
    if sort.pages < sort.count * <int64_t> sizeof(SortEntry):
        sort.pages = buffer_make_pages(&sort.other, sort.pages, sort.count * <int64_t> sizeof(SortEntry))
        return True
    for i in range(sort.done, stop):
        bucket = sort_bucket(sort, &entries[i])
        (<SortEntry*> sort.other.data)[sort.starts[bucket]] = entries[i]
        sort.starts[bucket] += 1
    sort.done = stop
    if stop == sort.count:
        sort.entries, sort.other = sort.other, sort.entries
        sort.shift += SORT_BITS
        sort.moving = False
        sort.done = 0
    return True
