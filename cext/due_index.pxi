# An index of the long that stands at one place of every value: records in the order of their longs.
#
#     fences    int64: the long of every FENCE-th record, beginning with the first
#     entries   5 bytes: offset of the record; zeros up to a multiple of 4,096
#
# Between two fences the records themselves tell their longs. A value that is too short, whose long is null (by its bit in
# the first 8 bytes, as in a row of up to 64 columns) or -1, is not in it.

cdef enum:
    FENCE = 64
    ENTRY = OFFSET_BITS // 8
    NO_LONG = -1
    MAX_INDEXED_AT = 8 + 8 * 63
    COLLECT_BYTES = 16 << 20    # of records that a step towards an index goes through

cdef struct DueEntry:
    int64_t value
    uint64_t at

# What becomes an index, step by step.
cdef struct DueSort:
    Area entries
    Area other
    int64_t at          # of the next record to look at
    int64_t count
    int64_t least
    int64_t most
    int shift           # how many bits of the longs have been sorted by


cdef inline int64_t due_bytes(int64_t count) noexcept nogil:
    return whole_blocks(8 * num_fences(count) + ENTRY * count)


cdef inline int64_t num_fences(int64_t count) noexcept nogil:
    return (count + FENCE - 1) // FENCE


cdef inline DueView due_view(const uint8_t* start, int64_t count) noexcept nogil:
    return DueView(start, start + 8 * num_fences(count), count)


cdef inline bint long_of(const Record* record, int64_t at, int64_t* out) noexcept nogil:
    """The long that a record is indexed by; False: it is not."""
    if record.value_size < at + 8 or get_bit(record.value, at // 8 - 1):
        return False
    out[0] = <int64_t> load_le64(record.value + at)
    return out[0] != NO_LONG


cdef void due_free(DueSort* sort) noexcept nogil:
    area_free(&sort.entries)
    area_free(&sort.other)


cdef bint due_step(
    DueSort* sort, const uint8_t* records, int64_t end, bint row_checksums, int64_t indexed_at, Area* out, Fault* fault,
) noexcept nogil:
    """Does some milliseconds' work towards the index of some records. False: `out` has it, or there is a fault."""
    if sort.at < end:
        if end > MOST_RECORD_BYTES:
            fault.kind = TOO_MUCH_TO_INDEX
        elif not due_collect(sort, records, end, row_checksums, indexed_at):
            fault.kind = OUT_OF_MEMORY
        return fault.kind == NONE
    if sort.count and sort.shift < 64 and (<uint64_t> sort.most - <uint64_t> sort.least) >> sort.shift:
        if not due_pass(sort):
            fault.kind = OUT_OF_MEMORY
        return fault.kind == NONE
    area_free(&sort.other)
    if not area_zeroed(out, due_bytes(sort.count)):
        fault.kind = OUT_OF_MEMORY
        return False
    due_write(sort, out.data)
    area_free(&sort.entries)
    return False


cdef bint due_collect(
    DueSort* sort, const uint8_t* records, int64_t end, bint row_checksums, int64_t indexed_at
) noexcept nogil:
    """Takes the longs out of some records."""
    cdef Record record
    cdef DueEntry* entry
    cdef int64_t value = 0, stop = min(end, sort.at + COLLECT_BYTES)
    while sort.at < stop:
        read_record(records + sort.at, row_checksums, &record)
        if long_of(&record, indexed_at, &value):
            if not area_need(&sort.entries, (sort.count + 1) * <int64_t> sizeof(DueEntry)):
                return False
            entry = <DueEntry*> sort.entries.data + sort.count
            entry.value = value
            entry.at = <uint64_t> sort.at
            sort.least = min(sort.least, value) if sort.count else value
            sort.most = max(sort.most, value) if sort.count else value
            sort.count += 1
        sort.at += record.size
    return True


cdef bint due_pass(DueSort* sort) noexcept nogil:
    """Sorts by the next 11 bits of the longs, the lowest first."""
    cdef int64_t[2048] starts
    cdef int64_t i, n, total = 0
    cdef uint64_t least = <uint64_t> sort.least
    cdef const DueEntry* from_ = <const DueEntry*> sort.entries.data
    cdef DueEntry* to
    cdef Area swap
    if not area_need(&sort.other, sort.count * <int64_t> sizeof(DueEntry)):
        return False
    to = <DueEntry*> sort.other.data
    memset(starts, 0, sizeof(starts))
    for i in range(sort.count):
        starts[((<uint64_t> from_[i].value - least) >> sort.shift) & 2047] += 1
    for i in range(2048):
        n = starts[i]
        starts[i] = total
        total += n
    for i in range(sort.count):
        n = ((<uint64_t> from_[i].value - least) >> sort.shift) & 2047
        to[starts[n]] = from_[i]
        starts[n] += 1
    swap = sort.entries
    sort.entries = sort.other
    sort.other = swap
    sort.shift += 11
    return True


cdef void due_write(const DueSort* sort, uint8_t* out) noexcept nogil:
    cdef const DueEntry* entries = <const DueEntry*> sort.entries.data
    cdef uint8_t* at = out + 8 * num_fences(sort.count)
    cdef int64_t i
    for i in range(sort.count):
        if i % FENCE == 0:
            store_le64(out + 8 * (i // FENCE), <uint64_t> entries[i].value)
        store_le32(at, <uint32_t> entries[i].at)
        at[4] = <uint8_t> (entries[i].at >> 32)
        at += ENTRY


cdef class DueIndex:
    """The index of a layer's records."""

    cdef Area area
    cdef DueView view
    cdef int64_t indexed_at

    def __dealloc__(self):
        area_free(&self.area)
