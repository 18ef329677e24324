# Merges an image and the layers on top of it to a snapshot's records, and to a new image.
#
# The newest record of each key in the layers is kept. A lookup of its key in the image finds the image's dead record.
# So the cost of deciding grows with the updates. The image is copied in runs between dead records, neither parsed nor
# hashed. A snapshot's records pass through one buffer that stays in the cache.

cdef const uint8_t* END_MARK = b"\xff\xff\xff\xff"

cdef struct Cursor:             # a position in the merged records
    const uint8_t* run          # what comes next, and its size
    int64_t left
    int64_t at                  # what comes after that: offset in the image, number in `dead`, node
    int64_t next_dead
    int64_t next_node
    bint in_image               # whether the run is the image's
    bint ended                  # whether the run is the end mark


cdef class Merger:
    """Merges an image and some layers, step by step; nothing that it reads changes meanwhile.

    Args:
        base: the image below the layers.
        layers: those of VersionedMap.path, oldest first.
        prefix, timeout_offset: those of the new image.
        in_steps: False if nobody waits between two steps. The memory then has huge pages, which is quicker.
    """

    cdef Image base, image
    cdef list layers
    cdef Remains remains
    cdef Table table            # the newest record of each key in the layers; layer i of it is the i-th newest
    cdef GrowableBuffer layer_records
    cdef Sort dead              # records of the image: offset, size
    cdef int64_t pages          # bytes of the table's slots that have their pages
    cdef int64_t layer, at      # the next record to decide: the layer, the offset in it; the layers after that are done
    cdef int64_t num_puts
    cdef int64_t size           # of the new records, without the end mark
    cdef GrowableBuffer chunk   # that `read` returns
    cdef Cursor reading, building
    cdef int64_t built          # bytes of the new image's records
    cdef int64_t pages_built    # bytes that have their pages
    cdef Indexing work
    cdef bint decided, copied, indexed, finished, freed, busy
    cdef Fault fault            # after one, the work is half done: each call raises it again

    def __init__(self, Image base not None, layers, *, prefix=None, timeout_offset=None, bint in_steps=True):
        cdef Layer layer
        cdef int64_t i, records = 0
        self.base = base
        self.layers = list(reversed(layers))
        self.image = new_image(base.view.row_checksums, prefix, timeout_offset)
        self.remains = Remains()
        self.image.remains = self.remains
        self.table.in_steps = self.dead.in_steps = self.work.in_steps = in_steps
        self.table.row_checksums = base.view.row_checksums
        if not buffer_need(&self.layer_records, 8 * (len(self.layers) + 1)):
            raise MemoryError
        self.table.layers = <const uint8_t**> self.layer_records.data
        for i, layer in enumerate(self.layers):
            if layer.row_checksums != base.view.row_checksums:
                raise ValueError("the layers and the image do not agree about row checksums")
            self.table.layers[i] = layer.buffer.data
            records += layer.num_records
        self.size = base.view.end
        table_reserve(&self.table, records, &self.fault)
        self.check()

    def __dealloc__(self):
        table_free(&self.table)
        buffer_free(&self.layer_records)
        sort_free(&self.dead)
        buffer_free(&self.chunk)
        indexing_free(&self.work)

    cdef bint check(self) except False:
        if self.fault.kind != NONE:
            raise failure(&self.fault, self.base.path)
        return True

    def read(self):
        """Does a millisecond's work or less without the GIL towards the merged records, and gives the next of them.

        Returns:
            A pyarrow.Buffer that is good until the next call; it may be empty. The end mark comes last, then None.

        Raises:
            ImageDamagedError: a block of the image does not match its checksum. Each further call raises it again.
        """
        cdef int64_t size = 0
        begin(&self.busy)
        try:
            self.check()
            if self.freed:
                raise ValueError("the merger has ended")
            if is_at_end(&self.reading):
                return None
            if not self.prepare():
                if self.chunk.data == NULL and not buffer_need(&self.chunk, STEP_BYTES):
                    raise MemoryError
                with nogil:
                    size = self.fill(&self.reading, self.chunk.data, STEP_BYTES, &self.fault)
                self.check()
        finally:
            self.busy = False
        return pa.foreign_buffer(<uintptr_t> self.chunk.data, size, self)

    def build(self):
        """Does a millisecond's work or less without the GIL towards a new image of the merged records.

        Returns:
            Whether there is more to do.

        Raises:
            ImageDamagedError: a block of the image does not match its checksum. Each further call raises it again.
        """
        begin(&self.busy)
        try:
            return self.build_more()
        finally:
            self.busy = False

    cdef bint build_more(self) except -1:
        self.check()
        if self.finished or self.image is None:
            return False
        if self.prepare():
            return True
        with nogil:
            if not self.copied:
                self.copy(&self.fault)
            elif not self.indexed:
                self.index(&self.fault)
            else:
                self.finished = not other_index_step(self.image, &self.work, &self.fault)
        self.check()
        return not self.finished

    def finish(self):
        """The image, when `build` has returned False. Ends the merger."""
        image = self.image
        self.check()
        if not self.finished or image is None:
            raise ValueError("the image is not built yet, or was given away")
        self.image = None
        buffer_filled(&image.records_buffer)
        buffer_filled(&image.index_buffer)
        return image

    def free(self):
        """Frees some of the memory of a merger that has ended, and of its image if nothing refers to that any more.

        Returns:
            Whether there is more. It need not be called: the rest is freed with the merger.
        """
        if self.image is not None:
            raise ValueError("the merger has not ended")
        begin(&self.busy)
        if not self.freed:
            self.freed = True
            self.remains.take(&self.table.slots)
            self.remains.take(&self.table.nodes)
            self.remains.take(&self.dead.entries)
        self.busy = False
        return self.remains.free_some()

    cdef bint prepare(self) except -1:
        """Decides some records. False: all are decided."""
        cdef Layer layer
        if self.decided:
            return False
        if self.pages < self.table.slots.capacity:
            with nogil:
                self.pages = buffer_make_pages(&self.table.slots, self.pages, self.table.slots.capacity)
        elif self.layer == len(self.layers):
            with nogil:
                self.settle(&self.fault)
        else:
            layer = self.layers[self.layer]
            with nogil:
                self.decide(layer, &self.fault)
            if self.at == layer.size - 4:
                self.layer += 1
                self.at = 0
        self.check()
        return True

    cdef void decide(self, Layer layer, Fault* fault) noexcept nogil:
        """Enters records of a layer whose keys no newer layer has, and finds the image's records of these keys."""
        cdef Lookup[GROUP] keys
        cdef Record record
        cdef int64_t end = layer.size - 4, left = STEP_RECORDS, size
        cdef const ImageView* view = &self.base.view
        cdef int i, n
        while self.at < end and left > 0:
            n = 0
            while n < GROUP and self.at < end:
                keys[n].record = layer.buffer.data + self.at
                buffer_prefetch(keys[n].record + AHEAD)
                read_record(keys[n].record, layer.row_checksums, &record)
                keys[n].key = record.key
                keys[n].size = record.key_size
                keys[n].hash = hash_key(record.key, record.key_size, &view.seed)
                keys[n].value_size = record.value_size
                keys[n].left = <uint64_t> record.size
                self.at += record.size
                n += 1
            left -= n
            if not table_reserve(&self.table, n, fault):
                return
            for i in range(n):
                table_start(&self.table, &keys[i])
            table_prefetch(&self.table, keys, n)
            for i in range(n):
                keys[i].where = NOWHERE if self.enter(layer, &keys[i]) else IN_OVERLAY
            start_in_image(view, keys, n)
            if not find_in_image(view, keys, n, fault):
                return
            for i in range(n):
                if keys[i].where == IN_IMAGE:
                    size = 8 + <int64_t> keys[i].size + keys[i].value_size + (4 if view.row_checksums else 0)
                    if not sort_add(&self.dead, <uint64_t> (keys[i].record - view.records), <uint64_t> size, fault):
                        return
                    self.size -= size

    cdef inline bint enter(self, Layer layer, Lookup* key) noexcept nogil:
        """Enters a record unless a newer layer has its key; whether it is the first one of the key."""
        cdef Node* node
        cdef int64_t number = table_find(&self.table, key)
        cdef int64_t offset = key.record - layer.buffer.data
        cdef bint tombstone = key.value_size < 0
        if number < 0:
            table_add(&self.table, key.at, key.hash, -1, <uint32_t> self.layer, offset, tombstone)
            self.count_put(tombstone, <int64_t> key.left)
            return True
        node = node_of(&self.table, number)
        if node.layer == <uint32_t> self.layer:  # twice in one layer: the later one holds
            self.count_put(node.at & 1, -self.size_of_node(node))
            node.at = <uint64_t> offset << 1 | tombstone
            self.count_put(tombstone, <int64_t> key.left)
        return False

    cdef inline void count_put(self, bint tombstone, int64_t size) noexcept nogil:
        """Counts a record, or with a negative size one that holds no more."""
        if not tombstone:
            self.num_puts += 1 if size > 0 else -1
            self.size += size

    cdef inline int64_t size_of_node(self, const Node* node) noexcept nogil:
        cdef Record record
        read_record(node_record(&self.table, node), self.table.row_checksums, &record)
        return record.size

    cdef void settle(self, Fault* fault) noexcept nogil:
        """Sorts what is dead. Then all is known that goes into the merged records."""
        self.decided = not sort_step(&self.dead, fault) and fault.kind == NONE
        if self.size < 0:  # the index of an image from a file, which anybody may have made up, names records in records
            bad_record(&self.base.view, 0, fault)

    cdef void copy(self, Fault* fault) noexcept nogil:
        """Copies some of the new image's records."""
        cdef GrowableBuffer* records = &self.image.records_buffer
        cdef int64_t left = self.size + 4 - self.built, count = self.base.num_keys - self.dead.count + self.num_puts
        if records.data == NULL and not new_buffer(records, self.size + 4, self.work.in_steps):
            fault.kind = OUT_OF_MEMORY
            return
        if self.work.in_steps and self.pages_built < min(self.built + STEP_BYTES, self.size + 4):
            self.pages_built = buffer_make_pages(records, self.pages_built, self.size + 4)
        self.built += self.fill(&self.building, records.data + self.built, min(left, STEP_BYTES), fault)
        if fault.kind != NONE or (self.built < self.size + 4 and not is_at_end(&self.building)):
            return
        if self.built < self.size + 4 or not is_at_end(&self.building) or count < 0:  # made up as well
            bad_record(&self.base.view, self.building.at, fault)
            return
        self.copied = start_index(self.image, &self.work, records.data, self.size, count, fault)

    cdef void index(self, Fault* fault) noexcept nogil:
        """Enters some of the new image's records in its index."""
        if index_step(self.image, &self.work, fault):
            return
        if fault.kind == NONE and self.work.live == self.work.count:
            set_records(self.image, self.work.live)
            self.indexed = True
        elif fault.kind == NONE or fault.kind == DAMAGED_RECORD:  # made up, too
            bad_record(&self.base.view, 0, fault)

    cdef int64_t fill(self, Cursor* cursor, uint8_t* out, int64_t room, Fault* fault) noexcept nogil:
        """Copies what comes next, and returns its size: less than `room` only at the end."""
        cdef int64_t filled = 0, size
        cdef int runs = 0
        while filled < room and runs < STEP_RECORDS and (cursor.left or self.next_run(cursor, fault)):
            size = min(cursor.left, room - filled)
            runs += 1
            if size == 0:
                continue
            if cursor.in_image and not touch(&self.base.view, cursor.run, size, fault):
                return 0
            memcpy(out + filled, cursor.run, size)
            filled += size
            cursor.run += size
            cursor.left -= size
        return filled

    cdef bint next_run(self, Cursor* cursor, Fault* fault) noexcept nogil:
        """Of the image what is not dead, then of the layers what holds, then the end mark; a run may be empty.

        False: a fault, or no more.
        """
        cdef const ImageView* view = &self.base.view
        cdef const SortEntry* dead = <const SortEntry*> self.dead.entries.data + cursor.next_dead
        cdef Node* node
        cdef int64_t stop
        cursor.in_image = cursor.at < view.end
        if cursor.in_image:
            stop = <int64_t> dead.value if cursor.next_dead < self.dead.count else view.end
            if stop < cursor.at:  # the index has named what is no record
                return bad_record(view, stop, fault)
            cursor.run = view.records + cursor.at
            cursor.left = stop - cursor.at
            cursor.at = stop
            if stop < view.end:
                cursor.at += <int64_t> dead.at
                cursor.next_dead += 1
        elif cursor.next_node < self.table.count:
            node = node_of(&self.table, cursor.next_node)
            cursor.next_node += 1
            if node.at & 1 == 0:
                cursor.run = node_record(&self.table, node)
                cursor.left = self.size_of_node(node)
        elif cursor.ended:
            return False
        else:
            cursor.ended = True
            cursor.run = END_MARK
            cursor.left = 4
        return True


cdef inline bint is_at_end(const Cursor* cursor) noexcept nogil:
    return cursor.ended and cursor.left == 0
