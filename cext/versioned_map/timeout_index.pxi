# An index by timeout, which is the long at one offset of every value: records in the order of their timeouts.
#
#     fences    int64: the timeout of every FENCE-th record, beginning with the first
#     entries   5 bytes: offset of the record; zeros up to a multiple of 4,096
#
# Between two fences the timeouts are read from the records. A record is not in the index if its value is too short, or
# its timeout is -1 or null (by its bit in the first 8 bytes, as in a row of up to 64 columns).

cdef enum:
    FENCE = 64
    NO_LONG = -1
    MAX_TIMEOUT_OFFSET = 8 + 8 * 63

cdef uint64_t SIGN = <uint64_t> 1 << 63  # with this bit flipped, longs sort as unsigned numbers

# An index that is made step by step.
cdef struct ExpiryBuild:
    Sort sort           # of timeouts, as unsigned numbers, and offsets
    int64_t at          # the next record to look at
    int64_t written     # entries


cdef inline int64_t expiry_bytes(int64_t count) noexcept nogil:
    return whole_blocks(8 * num_fences(count) + ENTRY * count)


cdef inline int64_t num_fences(int64_t count) noexcept nogil:
    return (count + FENCE - 1) // FENCE


cdef inline ExpiryView expiry_view(const uint8_t* start, int64_t count) noexcept nogil:
    return ExpiryView(start, start + 8 * num_fences(count), count)


cdef inline bint long_of(const Record* record, int64_t at, int64_t* out) noexcept nogil:
    """The timeout of a record; False: it has none."""
    if record.value_size < at + 8 or get_bit(record.value, at // 8 - 1):
        return False
    out[0] = <int64_t> load_le64(record.value + at)
    return out[0] != NO_LONG


cdef void expiry_free(ExpiryBuild* build) noexcept nogil:
    sort_free(&build.sort)


cdef bint expiry_step(
    ExpiryBuild* build, const uint8_t* records, int64_t end, bint row_checksums, int64_t timeout_offset,
    GrowableBuffer* out, Fault* fault,
) noexcept nogil:
    """Does a step of the index of some records. False: `out` has the index, or there is a fault."""
    if build.at < end:
        if end > MOST_RECORD_BYTES:
            fault.kind = TOO_MUCH_TO_INDEX
            return False
        return expiry_collect(build, records, end, row_checksums, timeout_offset, fault)
    if out.data == NULL:
        if sort_step(&build.sort, fault) or fault.kind != NONE:
            return fault.kind == NONE
        if not new_buffer(out, expiry_bytes(build.sort.count), build.sort.in_steps):
            fault.kind = OUT_OF_MEMORY
        return fault.kind == NONE
    expiry_write(build, out.data)
    return build.written < build.sort.count


cdef bint expiry_collect(
    ExpiryBuild* build, const uint8_t* records, int64_t end, bint row_checksums, int64_t timeout_offset, Fault* fault
) noexcept nogil:
    """Collects the timeouts of some records."""
    cdef Record record
    cdef int64_t value = 0
    cdef int n = 0
    while n < STEP_RECORDS and build.at < end:
        buffer_prefetch(records + build.at + AHEAD)
        read_record(records + build.at, row_checksums, &record)
        if long_of(&record, timeout_offset, &value) and not sort_add(
            &build.sort, <uint64_t> value ^ SIGN, <uint64_t> build.at, fault
        ):
            return False
        build.at += record.size
        n += 1
    return True


cdef void expiry_write(ExpiryBuild* build, uint8_t* out) noexcept nogil:
    """Writes some entries, and the fences between them."""
    cdef const SortEntry* entries = <const SortEntry*> build.sort.entries.data
    cdef uint8_t* first = out + 8 * num_fences(build.sort.count)
    cdef int64_t i, stop = min(build.written + STEP_ENTRIES, build.sort.count)
    for i in range(build.written, stop):
        if i % FENCE == 0:
            store_le64(out + 8 * (i // FENCE), entries[i].value ^ SIGN)
        store_entry(first + ENTRY * i, entries[i].at)
    build.written = stop


cdef class ExpiryIndex:
    """The index of a layer's records."""

    cdef GrowableBuffer buffer
    cdef ExpiryView view
    cdef int64_t timeout_offset

    def __dealloc__(self):
        buffer_free(&self.buffer)
