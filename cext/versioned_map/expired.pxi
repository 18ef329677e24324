# Records that have expired: those that the indexes name, and those that the transaction has put.

cdef bint expiry_own(
    Transaction transaction, ExpiryRange* wanted, GrowableBuffer* found, int64_t* num_found, Fault* fault
) noexcept nogil:
    """Appends the offsets of the transaction's own records that have expired."""
    cdef const Table* own = &transaction.own
    cdef const Node* node
    cdef Record record
    cdef GrowableBuffer stale
    cdef int64_t i, value = 0
    if own.count == 0:
        return True
    if not buffer_zeroed(&stale, own.count):
        fault.kind = OUT_OF_MEMORY
        return False
    for i in range(own.count):
        node = node_of(own, i)
        if node.before:
            stale.data[node.before - 1] = 1
    for i in range(own.count):
        node = node_of(own, i)
        if stale.data[i] or node.at & 1:
            continue
        read_record(node_record(own, node), own.row_checksums, &record)
        if long_of(&record, transaction.reader.image.timeout_offset, &value):
            if not expiry_note(wanted, value, <int64_t> (node.at >> 1), found, num_found, fault):
                break
    buffer_free(&stale)
    return fault.kind == NONE


cdef class ExpirySearch:
    """Searches what a transaction reads: the image, and the layers, oldest first. The transaction has been entered."""

    cdef Transaction transaction
    cdef list layers, indexes
    cdef GrowableBuffer found
    cdef int64_t num_found

    def __cinit__(self, Transaction transaction not None):
        cdef VersionedMap map_ = transaction.map_
        cdef Layer layer
        if map_.image.view.timeout_offset == 0:
            raise ValueError("the image has no index by timeout: it was made without a timeout offset")
        self.transaction = transaction
        self.layers = list(dict.fromkeys(map_.path(transaction.layer)))
        self.indexes = []
        for layer in self.layers:
            self.indexes.append(layer.timeouts(map_.image.view.timeout_offset))
        if transaction.cursors is None:
            transaction.cursors = map_.cursors_at(transaction.layer)
        while len(transaction.cursors) <= len(self.layers):
            transaction.cursors.append(ExpiryCursor())

    def __dealloc__(self):
        buffer_free(&self.found)

    cdef walk(self, int64_t number, ExpiryRange* wanted):
        """Searches one source. After a fault the cursors may be wrong, so they are dropped."""
        cdef ExpiryCursor cursor = self.transaction.cursors[number]
        cdef ExpiryIndex index
        cdef Layer layer
        cdef ImageView* image = &self.transaction.map_.image.view
        cdef ExpirySource source
        cdef Fault fault = Fault(NONE, 0)
        if number == 0:
            source = ExpirySource(&image.expiry, image, image.records, image.row_checksums, image.timeout_offset)
        else:
            layer = self.layers[number - 1]
            index = self.indexes[number - 1]
            source = ExpirySource(&index.view, NULL, layer.buffer.data, layer.row_checksums, image.timeout_offset)
        with nogil:
            expiry_walk(&source, &self.transaction.reader, cursor, wanted, &self.found, &self.num_found, &fault)
        self.check(&fault)

    cdef walk_own(self, ExpiryRange* wanted):
        cdef Fault fault = Fault(NONE, 0)
        with nogil:
            expiry_own(self.transaction, wanted, &self.found, &self.num_found, &fault)
        self.check(&fault)

    cdef check(self, Fault* fault):
        if fault.kind != NONE:
            self.transaction.cursors = None
            raise failure(fault, self.transaction.map_.image.path)


cdef next_expiry(Transaction transaction):
    cdef ExpirySearch search
    cdef ExpiryRange wanted = ExpiryRange(INT64_MAX, True)
    cdef int64_t number
    transaction.enter(False)
    try:
        search = ExpirySearch(transaction)
        search.walk_own(&wanted)
        for number in range(len(search.layers), -1, -1):
            search.walk(number, &wanted)
    finally:
        transaction.busy = False
    return wanted.last if search.num_found else None


cdef class Expiry:
    """The iterator of Transaction.expired. The call finds and verifies all records; they are copied batch by batch."""

    cdef ExpirySearch search
    cdef int64_t of_image, of_layers    # numbers of the records that were found there
    cdef int64_t position, max_rows

    def __cinit__(self, Transaction transaction not None, int64_t before, int64_t max_rows):
        cdef ExpiryRange wanted = ExpiryRange(before - 1 if before > INT64_MIN else before, False)
        cdef int64_t number
        if max_rows < 1:
            raise ValueError(f"max_rows is {max_rows}: a batch has one row at least")
        self.max_rows = max_rows
        transaction.enter(False)
        try:
            self.search = ExpirySearch(transaction)
            if before == INT64_MIN:
                return
            self.search.walk(0, &wanted)
            self.of_image = self.search.num_found
            for number in range(1, len(self.search.layers) + 1):
                self.search.walk(number, &wanted)
            self.of_layers = self.search.num_found - self.of_image
            self.search.walk_own(&wanted)
        finally:
            transaction.busy = False

    def __iter__(self):
        return self

    def __next__(self):
        cdef Column[2] columns
        cdef Fault fault = Fault(NONE, 0)
        cdef Transaction transaction = self.search.transaction
        memset(columns, 0, sizeof(columns))
        transaction.enter(False)
        try:
            with nogil:
                self.fill(columns, &fault)
            transaction.leave(&fault)
            if columns[0].count == 0:
                raise StopIteration
            return column_array(&columns[0], None, 0), column_array(&columns[1], None, 0)
        finally:
            column_free(&columns[0])
            column_free(&columns[1])

    cdef void fill(self, Column* out, Fault* fault) noexcept nogil:
        cdef Record record
        cdef int64_t stop = self.position + min(self.max_rows, self.search.num_found - self.position)
        while self.position < stop:
            if not self.record_at(self.position, &record, fault):
                return
            if not column_add(&out[0], record.key, record.key_size) or not column_add(
                &out[1], record.value, record.value_size
            ):
                fault.kind = OUT_OF_MEMORY
                return
            self.position += 1

    cdef bint record_at(self, int64_t number, Record* out, Fault* fault) noexcept nogil:
        cdef const Reader* reader = &self.search.transaction.reader
        cdef int64_t place = (<int64_t*> self.search.found.data)[number]
        if number < self.of_image:
            return image_record(reader.image, place, out, fault)
        if number < self.of_image + self.of_layers:
            read_record(<const uint8_t*> <uintptr_t> place, reader.overlay.row_checksums, out)
        else:
            read_record(reader.own.layers[0] + place, reader.own.row_checksums, out)
        return True
