# Walks the indexes by timeout of the image and of the layers. An entry is a candidate: it counts if a lookup of its key
# leads back to its record.
#
# An index keeps records that later updates have overwritten (dead ones). A version remembers how far each index was
# walked: a record that was dead then is dead in every version built on it, and those that were alive are listed.

cdef class ExpiryCursor:
    """How far an index was walked from its least timeout on, and which entries before that are alive."""

    cdef int64_t position
    cdef GrowableBuffer alive         # int64: numbers of entries
    cdef int64_t num_alive

    def __dealloc__(self):
        buffer_free(&self.alive)

    cdef ExpiryCursor copy(self):
        cdef ExpiryCursor other = ExpiryCursor()
        other.position = self.position
        other.num_alive = self.num_alive
        if self.num_alive:
            if not buffer_need(&other.alive, 8 * self.num_alive):
                raise MemoryError
            memcpy(other.alive.data, self.alive.data, 8 * self.num_alive)
        return other

    cdef inline bint keep(self, int64_t number) noexcept nogil:
        if not buffer_need(&self.alive, 8 * (self.num_alive + 1)):
            return False
        (<int64_t*> self.alive.data)[self.num_alive] = number
        self.num_alive += 1
        return True


# An index and its records.
cdef struct ExpirySource:
    const ExpiryView* index
    const ImageView* image      # NULL: a layer
    const uint8_t* records
    bint row_checksums
    int64_t timeout_offset

# Which timeouts are searched for: all up to `last`, or only the least of these.
cdef struct ExpiryRange:
    int64_t last
    bint least_only


cdef inline bint expiry_fence(const ExpirySource* source, int64_t i, int64_t* out, Fault* fault) noexcept nogil:
    cdef const uint8_t* p = source.index.fences + 8 * i
    if source.image != NULL and not touch(source.image, p, 8, fault):
        return False
    out[0] = <int64_t> load_le64(p)
    return True


cdef int64_t expiry_bound(const ExpirySource* source, int64_t value, Fault* fault) noexcept nogil:
    """The first fence that is greater than `value`. -1: a fault."""
    cdef int64_t low = 0, high = num_fences(source.index.count), middle, fence = 0
    while low < high:
        middle = low + (high - low) // 2
        if not expiry_fence(source, middle, &fence, fault):
            return -1
        if fence <= value:
            low = middle + 1
        else:
            high = middle
    return low


cdef inline bint expiry_offset(const ExpirySource* source, int64_t number, int64_t* out, Fault* fault) noexcept nogil:
    cdef const uint8_t* p = source.index.entries + ENTRY * number
    if source.image != NULL and not touch(source.image, p, ENTRY, fault):
        return False
    out[0] = load_entry(p)
    buffer_prefetch(source.records + out[0])
    return True


cdef bint expiry_read(
    const ExpirySource* source, int64_t* numbers, int n, const Reader* reader, Lookup* keys, int64_t* offsets,
    int64_t* values, bint* alive, Fault* fault,
) noexcept nogil:
    """Reads entries of an index: `values` are their timeouts, `alive` says whose record is its key's newest."""
    cdef Record record
    cdef bint looked = reader.own.count > 0 or reader.layer > 0
    cdef int i
    for i in range(n):
        if not expiry_offset(source, numbers[i], &offsets[i], fault):
            return False
    for i in range(n):
        if source.image == NULL:
            read_record(source.records + offsets[i], source.row_checksums, &record)
        elif not image_record(source.image, offsets[i], &record, fault):
            return False
        keys[i].key = record.key
        keys[i].size = record.key_size
        values[i] = NO_LONG
        alive[i] = long_of(&record, source.timeout_offset, &values[i])
    if looked:
        find_decided(reader, keys, n)
        for i in range(n):
            if source.image != NULL:
                alive[i] = alive[i] and keys[i].where == NOWHERE
            else:
                alive[i] = alive[i] and keys[i].record == source.records + offsets[i]
    return True


cdef inline int64_t expiry_place(const ExpirySource* source, int64_t offset) noexcept nogil:
    """How a record is found again: by its offset in the image, by its address in a layer."""
    return offset if source.image != NULL else <int64_t> <uintptr_t> (source.records + offset)


cdef bint expiry_walk(
    const ExpirySource* source, const Reader* reader, ExpiryCursor cursor, ExpiryRange* wanted, GrowableBuffer* found,
    int64_t* num_found, Fault* fault,
) noexcept nogil:
    """Walks on through an index and appends the places of the records that have expired.

    With `least_only` it stops at the first such record, and only lowers `last` to its timeout. False: a fault.
    """
    cdef Lookup[GROUP] keys
    cdef int64_t[GROUP] numbers, offsets, values
    cdef bint[GROUP] alive
    cdef int64_t kept = 0, at = 0, stop
    cdef int64_t* known = <int64_t*> cursor.alive.data
    cdef int i, n, most = GROUP
    # Of the entries that were alive before, some may be dead now.
    while at < cursor.num_alive:
        n = <int> min(cursor.num_alive - at, GROUP)
        memcpy(numbers, known + at, 8 * n)
        if not expiry_read(source, numbers, n, reader, keys, offsets, values, alive, fault):
            return False
        at += n
        for i in range(n):
            if alive[i]:
                known[kept] = numbers[i]
                kept += 1
                if not expiry_note(wanted, values[i], expiry_place(source, offsets[i]), found, num_found, fault):
                    return False
    cursor.num_alive = kept
    stop = expiry_bound(source, wanted.last, fault)
    if stop < 0:
        return False
    stop = min(stop * FENCE, source.index.count)
    if wanted.least_only:
        most = 8
    while cursor.position < stop:
        n = <int> min(stop - cursor.position, most)
        most = GROUP
        for i in range(n):
            numbers[i] = cursor.position + i
        if not expiry_read(source, numbers, n, reader, keys, offsets, values, alive, fault):
            return False
        for i in range(n):
            if alive[i]:
                if values[i] > wanted.last:
                    return True
                if not expiry_note(wanted, values[i], expiry_place(source, offsets[i]), found, num_found, fault):
                    return False
                if wanted.least_only:
                    return True
                if not cursor.keep(cursor.position):
                    fault.kind = OUT_OF_MEMORY
                    return False
            cursor.position += 1
    return True


cdef inline bint expiry_note(
    ExpiryRange* wanted, int64_t value, int64_t place, GrowableBuffer* found, int64_t* num_found, Fault* fault
) noexcept nogil:
    if value > wanted.last:
        return True
    num_found[0] += 1
    if wanted.least_only:
        wanted.last = value
    elif not buffer_need(found, 8 * num_found[0]):
        fault.kind = OUT_OF_MEMORY
        return False
    else:
        (<int64_t*> found.data)[num_found[0] - 1] = place
    return True
