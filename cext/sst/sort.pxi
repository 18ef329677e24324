# Sorts the records of an overlay by their keys, and of equal keys the newest first.
#
# Eight bytes of the keys at a time, behind those that they share, are numbers: these are sorted by their bytes, without
# comparing. Keys whose numbers are equal go on with the next bytes. Many changelogs are sorted in a tenth of the time
# that comparing takes.

cdef enum:
    FEW = 32                    # are compared
    MOST_LEVELS = 8             # keys that share more are compared, so that no keys make this slow or deep


cdef int by_key(const void* a, const void* b) noexcept nogil:
    cdef const Record* x = <const Record*> a
    cdef const Record* y = <const Record*> b
    cdef int order = compare_keys(x.key, x.key_size, y.key, y.key_size)
    if order:
        return order
    return 1 if x.sequence < y.sequence else -1


cdef void sort_records(Record* records, Record* spare, int64_t count, int level) noexcept nogil:
    """Sorts records that lie in the order of their sequence numbers, the newest first.

    Args:
        spare: room for as many.
        level: how often their keys were found to share eight bytes.
    """
    cdef int64_t i, first = 0, shared
    cdef uint64_t differing = 0
    if count <= FEW:
        insert_records(records, count)
        return
    if level == MOST_LEVELS:
        qsort(records, count, sizeof(Record), by_key)
        return
    shared = records[0].key_size
    for i in range(1, count):
        shared = shared_bytes(records[0].key, shared, records[i].key, records[i].key_size)
    for i in range(count):
        records[i].head = head_of(records[i].key, records[i].key_size, shared)
        differing |= records[i].head ^ records[0].head
    sort_by_heads(records, spare, count, differing)
    if differing == 0:
        # They are equal, but for zeros at their ends.
        qsort(records, count, sizeof(Record), by_key)
        return
    for i in range(1, count + 1):
        if i == count or records[i].head != records[first].head:
            if i - first > 1:
                sort_records(records + first, spare, i - first, level + 1)
            first = i


cdef void sort_by_heads(Record* records, Record* spare, int64_t count, uint64_t differing) noexcept nogil:
    """Sorts by one byte of the heads after the other, from the last one on. Equal ones keep their order."""
    cdef int64_t places[256]
    cdef int64_t i, place, number
    cdef int shift, byte
    cdef Record* source = records
    cdef Record* target = spare
    for shift in range(0, 64, 8):
        if not (differing >> shift) & 0xFF:
            continue
        memset(places, 0, sizeof(places))
        for i in range(count):
            places[(source[i].head >> shift) & 0xFF] += 1
        place = 0
        for byte in range(256):
            number = places[byte]
            places[byte] = place
            place += number
        for i in range(count):
            byte = (source[i].head >> shift) & 0xFF
            target[places[byte]] = source[i]
            places[byte] += 1
        source, target = target, source
    if source != records:
        memcpy(records, source, count * sizeof(Record))


cdef void insert_records(Record* records, int64_t count) noexcept nogil:
    cdef int64_t i, at
    cdef Record record
    for i in range(1, count):
        record = records[i]
        at = i
        while at > 0 and compare_keys(records[at - 1].key, records[at - 1].key_size, record.key, record.key_size) > 0:
            records[at] = records[at - 1]
            at -= 1
        records[at] = record
