# Merging an image and the layers on top of it: to a snapshot's records, and to a new image.
#
# The layers say which records hold, each key's newest; looking up their keys in the image tells which of its records
# are dead. So the cost of deciding is that of the updates, and the image itself is copied in runs between dead records,
# neither parsed nor hashed. A snapshot's records pass through one window that stays in the cache, and take no memory.

cdef enum:
    MERGE_RECORDS = 8192        # what a step decides at most
    MERGE_BYTES = 1 << 20       # what a step copies at most
    SIZE_BITS = 64 - OFFSET_BITS
    LARGE = (1 << SIZE_BITS) - 1


cdef const uint8_t* END_MARK = b"\xff\xff\xff\xff"

cdef struct Cursor:             # where in the merged records somebody is
    const uint8_t* run          # what comes next, and its size
    int64_t left
    int64_t at                  # what comes after that: offset in the image, number in `dead`, node
    int64_t next_dead
    int64_t next_node
    bint in_image               # whether the run is the image's
    bint ended                  # whether the run is the end mark


cdef class Merger:
    """Merges what the last of some layers holds, step by step; nothing that it reads changes meanwhile.

    Args:
        base: the image below the layers.
        layers: those of VersionedMap.path, oldest first.
        prefix, indexed_offset: those of the new image.
    """

    cdef Image base, image
    cdef list layers
    cdef Table table            # the newest record of each key in the layers; layer i of it is the i-th newest
    cdef Area layer_records
    cdef Area dead              # uint64 a record of the image: offset << 24 | size, LARGE where it takes no 24 bits
    cdef int64_t layer, at      # the next record to decide: the layer, the offset in it; the layers after that are done
    cdef int64_t num_dead, num_puts
    cdef int64_t size           # of the new records, without the end mark
    cdef Area window            # that `read` gives
    cdef Cursor reading, building
    cdef int64_t built          # bytes of the new image's records
    cdef DueSort sort
    cdef bint decided, indexing, finished, busy

    def __init__(self, Image base not None, layers, *, prefix=None, indexed_offset=None):
        cdef Layer layer
        cdef Fault fault = Fault(NONE, 0)
        cdef int64_t i, records = 0
        self.base = base
        self.layers = list(reversed(layers))
        self.image = new_image(base.view.row_checksums, prefix, indexed_offset)
        self.table.row_checksums = base.view.row_checksums
        if not area_need(&self.layer_records, 8 * (len(self.layers) + 1)):
            raise MemoryError
        self.table.layers = <const uint8_t**> self.layer_records.data
        for i, layer in enumerate(self.layers):
            if layer.row_checksums != base.view.row_checksums:
                raise ValueError("the layers and the image do not agree about row checksums")
            self.table.layers[i] = layer.area.data
            records += layer.num_records
        self.size = base.view.end
        if not table_reserve(&self.table, records, &fault):
            raise failure(&fault, base.path)

    def __dealloc__(self):
        table_free(&self.table)
        area_free(&self.layer_records)
        area_free(&self.dead)
        area_free(&self.window)
        due_free(&self.sort)

    def read(self):
        """Does some milliseconds' work without the GIL towards the merged records, and gives the next of them.

        Returns:
            A pyarrow.Buffer that is good until the next call; it may be empty. The end mark comes last, then None.

        Raises:
            ImageDamagedError: a block of the image does not match its checksum.
        """
        cdef Fault fault = Fault(NONE, 0)
        cdef int64_t size = 0
        begin(&self.busy)
        try:
            if self.reading.ended and self.reading.left == 0:
                return None
            if not self.prepare():
                if self.window.data == NULL and not area_need(&self.window, MERGE_BYTES):
                    raise MemoryError
                with nogil:
                    size = self.fill(&self.reading, self.window.data, MERGE_BYTES, &fault)
                if fault.kind != NONE:
                    raise failure(&fault, self.base.path)
        finally:
            self.busy = False
        return pa.foreign_buffer(<uintptr_t> self.window.data, size, self)

    def build(self):
        """Does some milliseconds' work without the GIL towards a new image of the merged records.

        Returns:
            Whether there is more to do.

        Raises:
            ImageDamagedError: a block of the image does not match its checksum.
        """
        begin(&self.busy)
        try:
            return self.build_more()
        finally:
            self.busy = False

    cdef bint build_more(self) except -1:
        cdef Fault fault = Fault(NONE, 0)
        cdef int64_t size = 0, count = self.base.num_keys - self.num_dead + self.num_puts
        if self.finished or self.image is None:
            return False
        if self.prepare():
            return True
        with nogil:
            if self.indexing:
                self.finished = not index_image(self.image, &self.sort, &fault)
            elif self.image.records_area.data != NULL or area_need(&self.image.records_area, self.size + 4):
                size = min(self.size + 4 - self.built, MERGE_BYTES)
                size = self.fill(&self.building, self.image.records_area.data + self.built, size, &fault)
                self.built += size
                if size == 0 and fault.kind == NONE:
                    self.indexing = self.is_whole(count, &fault) and finish_image(
                        self.image, self.size, count, &fault
                    )
            else:
                fault.kind = OUT_OF_MEMORY
        if fault.kind != NONE:
            raise failure(&fault, self.base.path)
        return not self.finished

    def finish(self):
        """The image, when `build` has returned False. Ends the merger."""
        image = self.image
        if not self.finished or image is None:
            raise ValueError("the image is not built yet, or was given away")
        self.image = None
        return image

    cdef bint prepare(self) except -1:
        """Decides some records. False: all are decided."""
        cdef Fault fault = Fault(NONE, 0)
        cdef Layer layer
        if self.decided:
            return False
        if self.layer == len(self.layers):
            with nogil:
                self.settle(&fault)
        else:
            layer = self.layers[self.layer]
            with nogil:
                self.decide(layer, &fault)
            if self.at == layer.size - 4:
                self.layer += 1
                self.at = 0
        if fault.kind != NONE:
            raise failure(&fault, self.base.path)
        return True

    cdef void decide(self, Layer layer, Fault* fault) noexcept nogil:
        """Enters records of a layer whose keys no newer layer has, and finds the image's records of these keys."""
        cdef Lookup[GROUP] keys
        cdef Record record
        cdef int64_t end = layer.size - 4, left = MERGE_RECORDS, size
        cdef const ImageView* view = &self.base.view
        cdef int i, n
        while self.at < end and left > 0:
            n = 0
            while n < GROUP and self.at < end:
                keys[n].record = layer.area.data + self.at
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
            if not area_need(&self.dead, 8 * (self.num_dead + n)):
                fault.kind = OUT_OF_MEMORY
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
                    (<uint64_t*> self.dead.data)[self.num_dead] = (
                        <uint64_t> (keys[i].record - view.records) << SIZE_BITS | <uint64_t> min(size, LARGE)
                    )
                    self.num_dead += 1
                    self.size -= size

    cdef inline bint enter(self, Layer layer, Lookup* key) noexcept nogil:
        """Enters a record unless a newer layer has its key; whether it is the first one of the key."""
        cdef Node* node
        cdef int64_t number = table_find(&self.table, key)
        cdef int64_t offset = key.record - layer.area.data
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
        """All is known that goes into the merged records."""
        if self.size < 0 or not sort_dead(&self.dead, self.num_dead, self.base.view.end):
            fault.kind = OUT_OF_MEMORY
            return
        self.decided = True

    cdef int64_t fill(self, Cursor* cursor, uint8_t* out, int64_t room, Fault* fault) noexcept nogil:
        """Copies what comes next, and returns its size: less than `room` only at the end."""
        cdef int64_t filled = 0, size
        while filled < room and (cursor.left or self.next_run(cursor, fault)):
            size = min(cursor.left, room - filled)
            if cursor.in_image and not touch(&self.base.view, cursor.run, size, fault):
                return 0
            memcpy(out + filled, cursor.run, size)
            filled += size
            cursor.run += size
            cursor.left -= size
        return filled

    cdef bint is_whole(self, int64_t count, Fault* fault) noexcept nogil:
        """Whether what was copied is so many records. Of an image from a file anybody may have made up the index."""
        cdef Record record
        cdef ImageView view
        cdef int64_t at = 0
        memset(&view, 0, sizeof(view))
        view.records = self.image.records_area.data
        view.end = self.size
        view.row_checksums = self.base.view.row_checksums
        if not self.building.ended or self.building.left or self.built != self.size + 4:
            return bad_record(&self.base.view, self.building.at, fault)
        if self.base.view.checked == NULL:
            return True
        while at < self.size:
            if not image_record(&view, at, &record, fault):
                return False
            at += record.size
            count -= 1
        return True if count == 0 else bad_record(&self.base.view, 0, fault)

    cdef bint next_run(self, Cursor* cursor, Fault* fault) noexcept nogil:
        """Of the image what is not dead, then of the layers what holds, then the end mark. False: a fault, or no more."""
        cdef Record record
        cdef const ImageView* view = &self.base.view
        cdef const uint64_t* dead = <const uint64_t*> self.dead.data
        cdef Node* node
        cdef int64_t stop, size
        cursor.in_image = cursor.at < view.end
        while cursor.at < view.end:
            stop = view.end
            if cursor.next_dead < self.num_dead:
                stop = <int64_t> (dead[cursor.next_dead] >> SIZE_BITS)
            if stop < cursor.at:  # the index has named what is no record
                return bad_record(view, stop, fault)
            if stop > cursor.at:
                cursor.run = view.records + cursor.at
                cursor.left = stop - cursor.at
                cursor.at = stop
                return True
            size = dead[cursor.next_dead] & LARGE
            if size == LARGE:
                if not image_record(view, cursor.at, &record, fault):
                    return False
                size = record.size
            cursor.at += size
            cursor.next_dead += 1
        cursor.in_image = False
        while cursor.next_node < self.table.count:
            node = node_of(&self.table, cursor.next_node)
            cursor.next_node += 1
            if node.at & 1 == 0:
                cursor.run = node_record(&self.table, node)
                cursor.left = self.size_of_node(node)
                return True
        if cursor.ended:
            return False
        cursor.ended = True
        cursor.run = END_MARK
        cursor.left = 4
        return True


cdef bint sort_dead(Area* area, int64_t count, int64_t limit) noexcept nogil:
    """Sorts by offset, all below `limit`: 11 bits at a time, the lowest first."""
    cdef Area other = Area(NULL, 0, 0), swap
    cdef int64_t[2048] starts
    cdef int64_t i, total, n
    cdef int shift = 0
    cdef const uint64_t* from_
    cdef uint64_t* to
    if count < 2:
        return True
    if not area_need(&other, 8 * count):
        return False
    while limit >> shift:
        from_ = <const uint64_t*> area.data
        to = <uint64_t*> other.data
        memset(starts, 0, sizeof(starts))
        for i in range(count):
            starts[(from_[i] >> (SIZE_BITS + shift)) & 2047] += 1
        total = 0
        for i in range(2048):
            n = starts[i]
            starts[i] = total
            total += n
        for i in range(count):
            n = (from_[i] >> (SIZE_BITS + shift)) & 2047
            to[starts[n]] = from_[i]
            starts[n] += 1
        swap = area[0]
        area[0] = other
        other = swap
        shift += 11
    area_free(&other)
    return True
