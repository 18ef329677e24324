# Scans candidates from the image, the overlay and the transaction, and keeps those that a lookup of their key finds.

cdef struct Candidate:
    const uint8_t* record   # NULL: any record of the key in that place
    const uint8_t* value
    int32_t value_size
    Where where

cdef enum Source:
    IMAGE_RECORDS
    OVERLAY_NODES
    OWN_NODES
    END_OF_SCAN


cdef class Scan:
    """The iterator of Transaction.scan."""

    cdef Transaction transaction
    cdef Reader reader
    cdef Source source
    cdef int64_t position, own_nodes, max_bytes

    def __cinit__(self, Transaction transaction not None, int64_t max_bytes):
        transaction.enter(False)
        self.transaction = transaction
        self.reader = transaction.reader
        self.reader.own_nodes = transaction.own.count
        transaction.busy = False
        self.max_bytes = min(max(max_bytes, 1), 1 << 30)

    def __iter__(self):
        return self

    def __next__(self):
        cdef Column[2] columns
        cdef Fault fault = Fault(NONE, 0)
        memset(columns, 0, sizeof(columns))
        self.transaction.enter(False)
        try:
            with nogil:
                self.fill(columns, &fault)
            self.transaction.leave(&fault)
            if columns[0].count == 0:
                raise StopIteration
            return column_array(&columns[0], None, 0), column_array(&columns[1], None, 0)
        finally:
            column_free(&columns[0])
            column_free(&columns[1])

    cdef void fill(self, Column* out, Fault* fault) noexcept nogil:
        cdef Lookup[GROUP] keys
        cdef Candidate[GROUP] found
        cdef int n
        while self.source != END_OF_SCAN and out[0].size + out[1].size < self.max_bytes:
            if self.source == IMAGE_RECORDS:
                n = self.from_image(keys, found, out[0].size + out[1].size, fault)
            else:
                n = self.from_nodes(keys, found, out[0].size + out[1].size)
            if fault.kind != NONE:
                return
            if n == 0:
                self.source = <Source> (self.source + 1)
                self.position = 0
            elif not keep_current(&self.reader, keys, found, n, out):
                fault.kind = OUT_OF_MEMORY
                return

    cdef int from_image(self, Lookup* keys, Candidate* found, int64_t filled, Fault* fault) noexcept nogil:
        """Takes the next records, at least one, until they reach max_bytes. Returns how many; 0 at the end."""
        cdef const ImageView* image = self.reader.image
        cdef Record record
        cdef int n = 0
        while n < GROUP and self.position < image.end and (n == 0 or filled < self.max_bytes):
            if not image_record(image, self.position, &record, fault):
                return 0
            keys[n].key = record.key
            keys[n].size = record.key_size
            found[n] = Candidate(image.records + self.position, record.value, record.value_size, IN_IMAGE)
            filled += record.key_size + record.value_size
            self.position += record.size
            n += 1
        return n

    cdef int from_nodes(self, Lookup* keys, Candidate* found, int64_t filled) noexcept nogil:
        """Does the same with the nodes of the overlay or of the transaction."""
        cdef const Table* table = self.reader.own
        cdef int64_t end = self.reader.own_nodes
        cdef bint shared = self.source == OVERLAY_NODES
        cdef int n = 0
        if shared:
            if self.reader.layer == 0:
                return 0
            table = self.reader.overlay
            PyThread_acquire_lock(self.reader.lock, WAIT_LOCK)
            end = table.count
        while n < GROUP and self.position < end and (n == 0 or filled < self.max_bytes):
            if not shared or is_visible(&self.reader, node_of(table, self.position)):
                decide(table, self.position, IN_OVERLAY if shared else IN_OWN, &keys[n])
                keys[n].key = node_key(table, node_of(table, self.position), &keys[n].size)
                found[n] = Candidate(keys[n].record, keys[n].value, keys[n].value_size, keys[n].where)
                filled += keys[n].size + keys[n].value_size
                n += 1
            self.position += 1
        if shared:
            PyThread_release_lock(self.reader.lock)
        return n


cdef bint keep_current(
    const Reader* reader, Lookup* keys, const Candidate* found, int n, Column* out
) noexcept nogil:
    """Appends the records that are current. False: no memory."""
    cdef int i
    cdef const uint8_t* value
    cdef int32_t value_size
    if reader.own.count or reader.layer:
        find_decided(reader, keys, n)
    else:
        for i in range(n):
            keys[i].where = NOWHERE
    for i in range(n):
        value = found[i].value
        value_size = found[i].value_size
        if found[i].where == IN_IMAGE:
            if keys[i].where != NOWHERE:
                continue
        elif found[i].record == NULL:
            if keys[i].where != found[i].where:
                continue
            value = keys[i].value
            value_size = keys[i].value_size
        elif keys[i].record != found[i].record:
            continue
        if value_size < 0:
            continue
        if not column_add(&out[0], keys[i].key, keys[i].size) or not column_add(&out[1], value, value_size):
            return False
    return True


cdef prefix_scan(Transaction transaction, bytes prefix):
    cdef Column[2] columns
    cdef Fault fault = Fault(NONE, 0)
    cdef const uint8_t* row = <const uint8_t*> PyBytes_AS_STRING(prefix)
    cdef int64_t size = PyBytes_GET_SIZE(prefix)
    if transaction.map_.image.plan.columns == 0:
        raise ValueError("a prefix scan needs a prefix plan, and the image was made without one")
    memset(columns, 0, sizeof(columns))
    transaction.enter(False)
    try:
        with nogil:
            collect_prefix(transaction, row, size, columns, &fault)
        transaction.leave(&fault)
        return column_array(&columns[0], None, 0), column_array(&columns[1], None, 0)
    finally:
        column_free(&columns[0])
        column_free(&columns[1])


cdef bint collect_prefix(
    Transaction transaction, const uint8_t* row, int64_t size, Column* out, Fault* fault
) noexcept nogil:
    cdef Reader* reader = &transaction.reader
    cdef const Plan* plan = &transaction.map_.image.plan
    cdef Scratch* scratch = &transaction.scratch
    cdef uint64_t h = hash_key(row, size, &reader.image.seed)
    if not follow_chain(reader, &transaction.prefixes, plan, IN_OWN, h, row, size, scratch, out, fault):
        return False
    if reader.layer and not follow_chain(
        reader, &transaction.map_.prefixes, plan, IN_OVERLAY, h, row, size, scratch, out, fault
    ):
        return False
    return follow_index(reader, plan, h, row, size, scratch, out, fault)


cdef bint follow_chain(
    const Reader* reader, const Prefixes* prefixes, const Plan* plan, Where where, uint64_t h, const uint8_t* row,
    int64_t size, Scratch* scratch, Column* out, Fault* fault,
) noexcept nogil:
    """Appends the current records of the keys in one of the tables that have the prefix."""
    cdef Lookup[GROUP] keys
    cdef Candidate[GROUP] found
    cdef const Table* table = reader.own if where == IN_OWN else reader.overlay
    cdef const Entry* entries
    cdef int64_t entry = 0
    cdef uint64_t at = 0
    cdef bint started = False
    cdef int n = GROUP
    while n == GROUP:
        n = 0
        if where == IN_OVERLAY:
            PyThread_acquire_lock(reader.lock, WAIT_LOCK)
        if not started:
            started = True
            entry = -1
            if prefixes.count:
                entry = prefix_find(prefixes, plan, table, h, row, size, scratch, &at)
        entries = <const Entry*> prefixes.entries.data
        while entry >= 0 and n < GROUP:
            keys[n].key = node_key(table, node_of(table, <int64_t> entries[entry].node), &keys[n].size)
            found[n] = Candidate(NULL, NULL, 0, where)
            entry = <int64_t> entries[entry].before - 1
            n += 1
        if where == IN_OVERLAY:
            PyThread_release_lock(reader.lock)
        if entry == -2 or not keep_current(reader, keys, found, n, out):
            fault.kind = OUT_OF_MEMORY
            return False
    return True


cdef bint follow_index(
    const Reader* reader, const Plan* plan, uint64_t h, const uint8_t* row, int64_t size, Scratch* scratch, Column* out,
    Fault* fault,
) noexcept nogil:
    """Does the same with the image."""
    cdef Lookup[GROUP] keys
    cdef Candidate[GROUP] found
    cdef int64_t[GROUP] offsets
    cdef const ImageView* image = reader.image
    cdef PrefixWalk walk = prefix_walk(&image.by_prefix, h)
    cdef Record record
    cdef int64_t other_size
    cdef int i, candidates = GROUP, n
    while candidates == GROUP:
        candidates = 0
        while candidates < GROUP:
            if not prefix_next(image, &walk, &offsets[candidates], fault):
                return False
            if offsets[candidates] < 0:
                break
            buffer_prefetch(image.records + offsets[candidates])
            candidates += 1
        n = 0
        for i in range(candidates):
            if not image_record(image, offsets[i], &record, fault):
                return False
            other_size = project(plan, record.key, record.key_size, &scratch.other)
            if other_size == -2:
                fault.kind = OUT_OF_MEMORY
                return False
            if are_alike(scratch.other.data, other_size, row, size):
                keys[n].key = record.key
                keys[n].size = record.key_size
                found[n] = Candidate(image.records + offsets[i], record.value, record.value_size, IN_IMAGE)
                n += 1
        if not keep_current(reader, keys, found, n, out):
            fault.kind = OUT_OF_MEMORY
            return False
    return True
