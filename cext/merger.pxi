# Merging an image and the layers on top of it to a new image: what a snapshot is made of.
#
# The layers say which records hold, each key's newest; looking up their keys in the image tells which of its records
# are dead. So the cost of deciding is that of the updates, and the image itself is copied in runs between dead records,
# neither parsed nor hashed.

cdef enum:
    MERGE_RECORDS = 8192        # what a step decides at most
    MERGE_BYTES = 1 << 20       # what a step copies at most, unless a record is larger
    SIZE_BITS = 64 - OFFSET_BITS
    LARGE = (1 << SIZE_BITS) - 1


cdef class Merger:
    """Makes one image of what the last of some layers holds, step by step; nothing that it reads changes meanwhile.

    Args:
        base: the image below the layers.
        layers: those of VersionedMap.path, oldest first.
        prefix: the plan of the new image's prefix scans.
    """

    cdef Image base, image
    cdef list layers
    cdef Table table            # the newest record of each key in the layers; layer i of it is the i-th newest
    cdef Area layer_records
    cdef Area dead              # uint64 a record of the image: offset << 24 | size, LARGE where it takes no 24 bits
    cdef int64_t layer, at      # the next record to decide: the layer, the offset in it; the layers after that are done
    cdef int64_t num_dead, num_puts
    cdef int64_t size           # of the new records, without the end mark
    cdef int64_t filled         # what is there of them
    cdef int64_t from_, next_dead, next_node    # what to copy next: offset in the image, number in `dead`, node
    cdef bint decided, ended

    def __init__(self, Image base not None, layers, *, prefix=None):
        cdef Layer layer
        cdef int64_t i, records = 0
        self.base = base
        self.layers = list(reversed(layers))
        self.image = Image.__new__(Image)
        self.image.set_plan(prefix)
        self.image.metadata = b""
        self.image.view.row_checksums = self.table.row_checksums = base.view.row_checksums
        self.image.view.seed = int.from_bytes(os.urandom(8), "little")
        if not area_need(&self.layer_records, 8 * (len(self.layers) + 1)):
            raise MemoryError
        self.table.layers = <const uint8_t**> self.layer_records.data
        for i, layer in enumerate(self.layers):
            if layer.row_checksums != base.view.row_checksums:
                raise ValueError("the layers and the image do not agree about row checksums")
            self.table.layers[i] = layer.area.data
            records += layer.num_records
        self.size = base.view.end
        if not table_reserve(&self.table, records):
            raise MemoryError

    def __dealloc__(self):
        table_free(&self.table)
        area_free(&self.layer_records)
        area_free(&self.dead)

    def step(self):
        """Does some milliseconds' work without the GIL.

        Returns:
            What this appended to the new image's records, end mark included, as a pyarrow.Buffer that is good until
            `finish`; it may be empty. None when all is done.

        Raises:
            ImageDamagedError: a block of the image does not match its checksum.
        """
        cdef Fault fault = Fault(NONE, 0)
        cdef int64_t before = self.filled
        cdef Layer layer = None
        if self.ended:
            return None
        if self.layer < len(self.layers):
            layer = self.layers[self.layer]
            with nogil:
                self.decide(layer, &fault)
            if self.at == layer.size - 4:
                self.layer += 1
                self.at = 0
        elif not self.decided:
            with nogil:
                self.settle(&fault)
        else:
            with nogil:
                self.copy(&fault)
        if fault.kind != NONE:
            raise failure(&fault, self.base.path)
        return pa.foreign_buffer(<uintptr_t> (self.image.records_area.data + before), self.filled - before, self.image)

    def finish(self):
        """The image. Ends the merger; call it when `step` has returned None."""
        cdef Image image = self.image
        cdef Fault fault = Fault(NONE, 0)
        if not self.ended or image is None:
            raise ValueError("the merger has not come to its end, or is finished")
        self.image = None
        with nogil:
            finish_image(image, self.size, self.base.num_keys - self.num_dead + self.num_puts, &fault)
        if fault.kind != NONE:
            raise failure(&fault, None)
        return image

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
                keys[n].hash = hash_key(record.key, record.key_size, view.seed)
                keys[n].value_size = record.value_size
                keys[n].left = <uint64_t> record.size
                self.at += record.size
                n += 1
            left -= n
            if not table_reserve(&self.table, n) or not area_need(&self.dead, 8 * (self.num_dead + n)):
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
        """Knows all that goes into the new image, and makes room for it."""
        if self.size < 0 or not sort_dead(&self.dead, self.num_dead, self.base.view.end) or not area_resize(
            &self.image.records_area, self.size + 4
        ):
            fault.kind = OUT_OF_MEMORY
            return
        self.decided = True

    cdef void copy(self, Fault* fault) noexcept nogil:
        """Copies a window: of the image what is not dead, then of the layers what holds, then the end mark."""
        cdef Record record
        cdef const ImageView* view = &self.base.view
        cdef const uint64_t* dead = <const uint64_t*> self.dead.data
        cdef Node* node
        cdef int64_t stop = self.filled + MERGE_BYTES, run, next_dead, size
        while self.from_ < view.end and self.filled < stop:
            next_dead = view.end
            if self.next_dead < self.num_dead:
                next_dead = <int64_t> (dead[self.next_dead] >> SIZE_BITS)
            run = min(next_dead - self.from_, MERGE_BYTES)
            if run < 0 or run > self.size - self.filled:  # the index has named what is no record
                bad_record(view, self.from_, fault)
                return
            if run:
                if not touch(view, view.records + self.from_, run, fault):
                    return
                memcpy(self.image.records_area.data + self.filled, view.records + self.from_, run)
                self.filled += run
                self.from_ += run
                continue
            size = dead[self.next_dead] & LARGE
            if size == LARGE:
                if not image_record(view, self.from_, &record, fault):
                    return
                size = record.size
            self.from_ += size
            self.next_dead += 1
        while self.next_node < self.table.count and self.filled < stop:
            node = node_of(&self.table, self.next_node)
            self.next_node += 1
            if node.at & 1 == 0:
                read_record(node_record(&self.table, node), self.table.row_checksums, &record)
                memcpy(self.image.records_area.data + self.filled, node_record(&self.table, node), record.size)
                self.filled += record.size
        if self.from_ == view.end and self.next_node == self.table.count:
            write_size(self.image.records_area.data + self.filled, -1)
            self.filled += 4
            self.ended = True


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
