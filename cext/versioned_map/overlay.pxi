# A fork copies locks as they are. A lock that another thread held would stay locked in the child for ever, with its
# table half changed. So a fork acquires all locks first, and releases them afterwards in the parent and in the child.
# Holders never wait for the GIL, so this ends. Making a map and forking both take fork_lock, so no map is made
# meanwhile, and no two threads fork at once.
cdef PyThread_type_lock fork_lock = PyThread_allocate_lock()
cdef object all_maps = weakref.WeakSet()
cdef list held_by_fork = []


cdef void wait_for(PyThread_type_lock lock) noexcept:
    with nogil:
        PyThread_acquire_lock(lock, WAIT_LOCK)


def _before_fork():
    cdef VersionedMap map_
    wait_for(fork_lock)
    for map_ in list(all_maps):
        wait_for(map_.lock)
        held_by_fork.append(map_)


def _after_fork():
    cdef VersionedMap map_
    for map_ in held_by_fork:
        PyThread_release_lock(map_.lock)
    held_by_fork.clear()
    PyThread_release_lock(fork_lock)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)


cdef class VersionedMap:
    """An image and a tree of layers on it. Layer 0 is the image; each other layer is built on an earlier one.

    Threads may share a map. Layers stay in it until the map is dropped.
    """

    cdef Table overlay
    cdef Prefixes prefixes
    cdef Scratch scratch
    cdef GrowableBuffer layer_records   # const uint8_t* for each layer: table.layers
    cdef PyThread_type_lock lock    # held while one of the four above is read or changed
    cdef list layers, parents       # of layer i + 1
    cdef list key_counts            # of layer i; -1 = not there yet
    cdef list expiry_cursors        # of layer i: those of its transaction, or None
    cdef int64_t layer_bytes
    cdef readonly Image image
    cdef object __weakref__

    def __cinit__(self, Image image not None):
        self.image = image
        self.layers = []
        self.parents = []
        self.key_counts = [image.num_keys]
        self.expiry_cursors = [None]
        self.overlay.row_checksums = image.view.row_checksums
        self.lock = PyThread_allocate_lock()
        if self.lock == NULL:
            raise MemoryError
        wait_for(fork_lock)
        try:
            all_maps.add(self)
        finally:
            PyThread_release_lock(fork_lock)

    def __dealloc__(self):
        table_free(&self.overlay)
        prefixes_free(&self.prefixes)
        scratch_free(&self.scratch)
        buffer_free(&self.layer_records)
        if self.lock != NULL:
            PyThread_free_lock(self.lock)

    @property
    def nbytes(self):
        """Bytes of the layers and of the table over them, but not of the image."""
        cdef int64_t size = self.layer_bytes
        cdef Layer layer
        for layer in self.layers:
            if layer.expiry_index is not None:
                size += layer.expiry_index.buffer.capacity
        with nogil:
            PyThread_acquire_lock(self.lock, WAIT_LOCK)
            size += table_bytes(&self.overlay) + self.layer_records.capacity + prefixes_bytes(&self.prefixes)
            PyThread_release_lock(self.lock)
        return size

    cdef check(self, layer):
        if not 0 <= layer < len(self.key_counts) or self.key_counts[layer] < 0:
            raise ValueError(f"there is no layer {layer}")

    def num_keys(self, int64_t layer):
        """Returns the number of keys at a layer."""
        self.check(layer)
        return self.key_counts[layer]

    def path(self, int64_t layer):
        """Returns the layers that this one is built on, and then this one, oldest first."""
        self.check(layer)
        path = []
        while layer:
            path.append(self.layers[layer - 1])
            layer = self.parents[layer - 1]
        return path[::-1]

    def transaction(self, int64_t layer):
        """Returns a Transaction on top of a layer."""
        self.check(layer)
        return Transaction(self, layer)

    cdef list cursors_at(self, int64_t layer):
        """Returns how far the indexes of the image and of the first layers below this one have been walked."""
        while layer and self.expiry_cursors[layer] is None:
            layer = self.parents[layer - 1]
        return [(<ExpiryCursor> cursor).copy() for cursor in self.expiry_cursors[layer] or ()]

    cdef bint mark_visible(self, GrowableBuffer* visible, int64_t layer) except False:
        """Makes a byte for each layer up to this one: 1 for this one and those that it is built on."""
        if not buffer_zeroed(visible, layer + 1):
            raise MemoryError
        while layer:
            visible.data[layer] = 1
            layer = self.parents[layer - 1]
        visible.data[0] = 1
        return True

    def add(self, int64_t parent, Layer layer not None, step=None):
        """Adds a layer on top of another one.

        Its records enter the table a few at a time, while other threads read. These do not see them, because nobody
        reads at this layer before its number is returned.

        Args:
            step: called after each chunk of records. If it raises, the layer is not added.

        Returns:
            The number of the layer.
        """
        cdef GrowableBuffer visible = GrowableBuffer(NULL, 0, 0)
        cdef Fault fault = Fault(NONE, 0)
        cdef int64_t number, num_keys, at = 0, most = INT64_MAX if step is None else STEP_RECORDS, more_keys = 0
        cdef bint counted
        self.check(parent)
        if layer.row_checksums != self.overlay.row_checksums:
            raise ValueError("the layer and the image do not agree about row checksums")
        number = len(self.key_counts)
        if number > MOST_NODES:
            raise SizeLimitError(f"a map has room for {MOST_NODES} layers")
        self.layers.append(layer)
        self.parents.append(parent)
        self.key_counts.append(-1)
        self.expiry_cursors.append(None)
        self.layer_bytes += layer.nbytes
        # If the layer's transaction was on this parent, it has counted the keys, and the image needs no lookups.
        counted = layer.base_layer == parent and layer.base_map is not None and layer.base_map() is self
        try:
            self.mark_visible(&visible, number)
            with nogil:
                self.place_layer(layer.buffer.data, number, &fault)
            while at < layer.size - 4 and fault.kind == NONE:
                with nogil:
                    at = self.merge(
                        layer, at, most, visible.data, <uint32_t> number, NULL if counted else &more_keys, &fault
                    )
                if step is not None:
                    step()
        finally:
            buffer_free(&visible)
        num_keys = self.key_counts[parent] + (layer.more_keys if counted else more_keys)
        check_count(num_keys, &fault)
        if fault.kind != NONE:
            raise failure(&fault, self.image.path)
        if counted:
            self.expiry_cursors[number], layer.expiry_cursors = layer.expiry_cursors, None
            if parent:  # cursors may be large; another branch from before the parent walks again
                self.expiry_cursors[self.parents[parent - 1]] = None
        self.key_counts[number] = num_keys
        return number

    cdef bint place_layer(self, const uint8_t* records, int64_t number, Fault* fault) noexcept nogil:
        cdef bint good
        PyThread_acquire_lock(self.lock, WAIT_LOCK)
        good = buffer_need(&self.layer_records, 8 * (number + 1))
        if good:
            self.overlay.layers = <const uint8_t**> self.layer_records.data
            self.overlay.layers[number] = records
        PyThread_release_lock(self.lock)
        if not good:
            fault.kind = OUT_OF_MEMORY
        return good

    cdef int64_t merge(
        self, Layer layer, int64_t at, int64_t most, const uint8_t* visible, uint32_t number, int64_t* more_keys,
        Fault* fault,
    ) noexcept nogil:
        """Enters about `most` records, counts keys unless more_keys is NULL, and returns the next record's offset."""
        cdef Lookup[GROUP] keys
        cdef Record record
        cdef Reader reader = Reader(&self.image.view, NULL, 0, &self.overlay, self.lock, visible, number)
        cdef int64_t end = layer.size - 4, puts
        cdef int i, n
        while at < end and most > 0:
            n = 0
            puts = 0
            while n < GROUP and at < end:
                keys[n].record = layer.buffer.data + at
                read_record(keys[n].record, layer.row_checksums, &record)
                keys[n].key = record.key
                keys[n].size = record.key_size
                keys[n].hash = hash_key(record.key, record.key_size, &self.image.view.seed)
                keys[n].value_size = record.value_size
                puts += record.value_size >= 0
                at += record.size
                n += 1
            most -= n
            PyThread_acquire_lock(self.lock, WAIT_LOCK)
            self.enter(&reader, layer.buffer.data, keys, n, fault)
            PyThread_release_lock(self.lock)
            if fault.kind != NONE:
                return at
            if more_keys != NULL:
                start_in_image(reader.image, keys, n)
                if not find_in_image(reader.image, keys, n, fault):
                    return at
                more_keys[0] += puts
                for i in range(n):
                    more_keys[0] -= keys[i].value_size >= 0
        return at

    cdef void enter(
        self, Reader* reader, const uint8_t* records, Lookup* keys, int n, Fault* fault
    ) noexcept nogil:
        """Enters records. Sets `where` and `value_size` to what the table had for their keys before."""
        cdef Table* table = &self.overlay
        cdef Node* node
        cdef int64_t newest, number, offset
        cdef bint tombstone
        cdef int i
        if not table_reserve(table, n, fault) or not prefix_reserve(
            &self.prefixes, &self.image.plan, keys, n, &self.scratch, fault
        ):
            return
        for i in range(n):
            table_start(table, &keys[i])
        table_prefetch(table, keys, n)
        for i in range(n):
            tombstone = keys[i].value_size < 0
            offset = keys[i].record - records
            newest = table_find(table, &keys[i])
            number = newest
            while number >= 0 and not is_visible(reader, node_of(table, number)):
                number = <int64_t> node_of(table, number).before - 1
            keys[i].where = NOWHERE
            keys[i].value_size = -1
            if number >= 0:
                node = node_of(table, number)
                keys[i].where = IN_OVERLAY
                keys[i].value_size = -1 if node.at & 1 else 0
                if node.layer == reader.layer:
                    node.at = <uint64_t> offset << 1 | tombstone
                    continue
            table_add(table, keys[i].at, keys[i].hash, newest, reader.layer, offset, tombstone)
            if newest < 0 and self.image.plan.columns:
                prefix_add(
                    &self.prefixes, &self.image.plan, table, &self.image.view.seed, keys[i].key, keys[i].size,
                    table.count - 1, &self.scratch,
                )
