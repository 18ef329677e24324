cdef class Transaction:
    """Reads a map at one layer, and keeps updates on top of it that nobody else sees. For one thread."""

    cdef Table own
    cdef Prefixes prefixes
    cdef Scratch scratch
    cdef GrowableBuffer records, visible
    cdef const uint8_t* own_records     # what own.layers points to
    cdef int64_t records_size
    cdef VersionedMap map_
    cdef Reader reader
    cdef Layer sealed
    cdef object got                     # the keys of the last get_many, so that updates of them need no second lookup
    cdef GrowableBuffer got_hashes      # their hashes; the lowest bit is 1 if the key had a value
    cdef list cursors                   # of the image and of each layer below; None: no index has been walked
    cdef bint busy
    cdef int64_t layer
    cdef int64_t own_puts               # keys whose value is from this transaction
    cdef readonly int64_t num_keys, num_puts, num_removes

    def __cinit__(self, VersionedMap map_ not None, int64_t layer):
        map_.check(layer)
        self.map_ = map_
        self.layer = layer
        self.num_keys = map_.key_counts[layer]
        map_.mark_visible(&self.visible, layer)
        self.own.row_checksums = map_.overlay.row_checksums
        self.own.layers = &self.own_records
        self.reader = Reader(
            &map_.image.view, &self.own, INT64_MAX, &map_.overlay, map_.lock, self.visible.data, <uint32_t> layer
        )

    def __dealloc__(self):
        table_free(&self.own)
        prefixes_free(&self.prefixes)
        scratch_free(&self.scratch)
        buffer_free(&self.records)
        buffer_free(&self.visible)
        buffer_free(&self.got_hashes)

    @property
    def nbytes(self):
        """Bytes of the updates and of the table over them."""
        return (
            self.records.capacity + table_bytes(&self.own) + self.visible.capacity + prefixes_bytes(&self.prefixes)
            + self.got_hashes.capacity + (0 if self.sealed is None else self.sealed.nbytes)
        )

    cdef enter(self, bint update):
        # The loops below run without the GIL, and a second thread would change their table.
        begin(&self.busy)
        if update and self.sealed is not None:
            self.busy = False
            raise ValueError("the transaction is sealed")

    cdef leave(self, Fault* fault):
        self.busy = False
        check_count(self.num_keys, fault)
        if fault.kind != NONE:
            raise failure(fault, self.map_.image.path)

    def get(self, bytes key not None):
        """Returns the key's value, or None."""
        cdef Lookup found
        cdef Fault fault = Fault(NONE, 0)
        set_key(&found, key)
        self.enter(False)
        with nogil:
            find_all(&self.reader, &found, 1, &fault)
        self.leave(&fault)
        return None if found.value_size < 0 else PyBytes_FromStringAndSize(<const char*> found.value, found.value_size)

    def put(self, bytes key not None, bytes value not None):
        """Sets the key's value."""
        cdef Lookup found
        cdef Fault fault = Fault(NONE, 0)
        cdef const uint8_t* data = <const uint8_t*> PyBytes_AS_STRING(value)
        cdef int64_t size = PyBytes_GET_SIZE(value)
        set_key(&found, key)
        if size > MOST_BYTES:
            raise too_large("the value")
        self.enter(True)
        with nogil:
            if self.reserve(found.size + size, 1, &fault) and self.find_one(&found, &fault):
                self.write(&found, data, <int32_t> size)
        self.leave(&fault)

    def remove(self, bytes key not None):
        """Removes the key and returns whether it was there. Writes nothing for an absent key."""
        cdef Lookup found
        cdef Fault fault = Fault(NONE, 0)
        cdef int64_t before
        cdef bint removed
        set_key(&found, key)
        self.enter(True)
        before = self.num_removes
        with nogil:
            if self.reserve(found.size, 1, &fault) and self.find_one(&found, &fault):
                self.write(&found, NULL, -1)
        removed = self.num_removes > before
        self.leave(&fault)
        return removed

    def get_many(self, keys not None):
        """Returns the values of keys.

        Args:
            keys: pyarrow (large) binary array without nulls.

        Returns:
            An aligned pyarrow binary array, large if its values are 2 GiB or more; null for absent keys.
        """
        cdef BinaryValues k = checked_values(keys, "keys")
        cdef Fault fault = Fault(NONE, 0)
        cdef Column column
        cdef uint8_t* bits
        cdef int64_t absent = 0
        memset(&column, 0, sizeof(column))
        validity = pa.allocate_buffer((k.length + 7) // 8)
        bits = <uint8_t*> <uintptr_t> validity.address
        self.enter(False)
        self.got = None
        try:
            with nogil:
                absent = self.collect(&k, &column, bits, &fault)
            if fault.kind == NONE:
                self.got = keys
            self.leave(&fault)
            return column_array(&column, validity if absent else None, absent)
        finally:
            column_free(&column)

    cdef int64_t collect(self, const BinaryValues* k, Column* out, uint8_t* validity, Fault* fault) noexcept nogil:
        """Appends the keys' values, stores the hashes, and returns the number of keys without a value."""
        cdef Lookup[GROUP] keys
        cdef uint64_t* hashes
        cdef int64_t start = 0, absent = 0, rows
        cdef int i, n
        memset(validity, 0, (k.length + 7) // 8)
        if not buffer_need(&out.ends, 4 * (k.length + 1)) or not buffer_need(&self.got_hashes, 8 * k.length):
            fault.kind = OUT_OF_MEMORY
            return 0
        hashes = <uint64_t*> self.got_hashes.data
        while start < k.length:
            n = set_keys(k, start, keys)
            if not find_all(&self.reader, keys, n, fault):
                return 0
            # Values are mostly of one size, so the first ones tell how much room all need. If not, the column grows.
            if start == GROUP:
                rows = min(k.length, MOST_EXPECTED)
                buffer_need(&out.data, min(min(out.size // GROUP, MOST_EXPECTED) * rows + out.size, MOST_EXPECTED))
            for i in range(n):
                if not column_add(out, keys[i].value, keys[i].value_size):
                    fault.kind = OUT_OF_MEMORY
                    return 0
                hashes[start + i] = keys[i].hash | 1
                if keys[i].value_size >= 0:
                    set_bit(validity, start + i)
                else:
                    hashes[start + i] ^= 1
                    absent += 1
            start += n
        return absent

    def put_many(self, keys not None, values not None):
        """Sets the values of keys, in the order given.

        Args:
            keys, values: pyarrow (large) binary arrays of one length without nulls.

        Raises:
            ValueError: a key or value is null, or their numbers differ.
            SizeLimitError: there are too many, or one is 2 GiB; nothing is set.
            ImageDamagedError, MemoryError: some of the keys may have been set; drop the transaction.
        """
        cdef BinaryValues k = checked_values(keys, "keys"), v = checked_values(values, "values")
        cdef bint known
        cdef Fault fault = Fault(NONE, 0)
        if k.length != v.length:
            raise ValueError(f"{k.length} keys and {v.length} values")
        self.enter(True)
        known = keys is self.got
        with nogil:
            self.update(&k, &v, known, &fault)
        self.leave(&fault)

    def remove_many(self, keys not None):
        """Removes keys and returns how many of them were there.

        Raises:
            ValueError: a key is null.
            SizeLimitError: there are too many, or one is 2 GiB; nothing is removed.
            ImageDamagedError, MemoryError: some of the keys may have been removed; drop the transaction.
        """
        cdef BinaryValues k = checked_values(keys, "keys")
        cdef Fault fault = Fault(NONE, 0)
        cdef int64_t before, removed
        cdef bint known
        self.enter(True)
        known = keys is self.got
        before = self.num_removes
        with nogil:
            self.update(&k, NULL, known, &fault)
        removed = self.num_removes - before
        self.leave(&fault)
        return removed

    cdef void update(self, const BinaryValues* k, const BinaryValues* v, bint known, Fault* fault) noexcept nogil:
        """Puts the values, or removes the keys if `v` is NULL. `known`: the keys are those of the last get_many."""
        cdef Lookup[GROUP] keys
        cdef BinaryValues values = k[0] if v == NULL else v[0]
        cdef int64_t start = 0
        cdef int i, n
        # Reserves for all keys at once: untouched memory costs nothing, and a table that grows is written twice.
        if not self.reserve(total_size(k) + (total_size(v) if v != NULL else 0), k.length, fault):
            return
        while start < k.length:
            n = set_keys(k, start, keys)
            if known:
                self.find_got(keys, start, n)
            elif not find_all(&self.reader, keys, n, fault):
                return
            if not self.reserve_prefixes(keys, n, fault):
                return
            for i in range(n):
                if v != NULL:
                    self.write(&keys[i], value_of(&values, start + i), <int32_t> size_of(&values, start + i))
                else:
                    self.write(&keys[i], NULL, -1)
            start += n

    cdef void find_got(self, Lookup* keys, int64_t start, int n) noexcept nogil:
        """Finds what `write` needs. Only this transaction has changed since get_many, so only its table is read."""
        cdef const uint64_t* hashes = <const uint64_t*> self.got_hashes.data
        cdef int i
        for i in range(n):
            keys[i].hash = hashes[start + i]
            keys[i].where = NOWHERE
            keys[i].value_size = <int32_t> (keys[i].hash & 1) - 1
            table_start(&self.own, &keys[i])
        find_in_own(&self.reader, keys, n)

    cdef bint reserve(self, int64_t size, int64_t count, Fault* fault) noexcept nogil:
        """Makes room for `count` records with `size` bytes of keys and values."""
        if not table_reserve(&self.own, count, fault):
            return False
        if not buffer_need(&self.records, self.records_size + size + 12 * count + 4):
            fault.kind = OUT_OF_MEMORY
            return False
        self.own_records = self.records.data
        return True

    cdef inline bint reserve_prefixes(self, const Lookup* keys, int n, Fault* fault) noexcept nogil:
        return prefix_reserve(&self.prefixes, &self.map_.image.plan, keys, n, &self.scratch, fault)

    cdef inline bint find_one(self, Lookup* key, Fault* fault) noexcept nogil:
        """Looks up a key before it is written, and makes room for its prefix."""
        return find_all(&self.reader, key, 1, fault) and self.reserve_prefixes(key, 1, fault)

    cdef inline void write(self, Lookup* key, const uint8_t* value, int32_t size) noexcept nogil:
        """Appends the update of a key that find_all has looked up. There is room for it."""
        cdef int64_t before
        cdef bint present = key.value_size >= 0, is_own = False
        cdef uint8_t* start = self.records.data + self.records_size
        cdef uint8_t* end
        key.at = key.own_at
        before = table_find(&self.own, key)  # again: the same group may have added it
        if before >= 0:
            present = is_own = not node_of(&self.own, before).at & 1
        if size < 0:
            if not present:
                return
            end = write_tombstone(start, key.key, key.size, self.own.row_checksums)
            self.num_removes += 1
            self.num_keys -= 1
            self.own_puts -= is_own
        else:
            end = write_put(start, key.key, key.size, value, size, self.own.row_checksums)
            self.num_puts += 1
            self.num_keys += not present
            self.own_puts += not is_own
        table_add(&self.own, key.at, key.hash, before, 0, self.records_size, size < 0)
        self.records_size += end - start
        if before < 0 and self.map_.image.plan.columns:
            prefix_add(
                &self.prefixes, &self.map_.image.plan, &self.own, &self.map_.image.view.seed, key.key, key.size,
                self.own.count - 1, &self.scratch,
            )

    def scan(self, int64_t max_bytes=1 << 20):
        """Scans all keys and values as they are now, in no order. Later updates do not show.

        Args:
            max_bytes: of keys and values. A batch ends at the record that reaches it.

        Returns:
            An iterator of pairs of aligned pyarrow binary arrays.
        """
        return Scan(self, max_bytes)

    def prefix_scan(self, bytes prefix not None):
        """Returns the keys whose first columns are the row `prefix`, and their values: two aligned binary arrays.

        Raises:
            ValueError: the image was made without a prefix plan.
        """
        return prefix_scan(self, prefix)

    def expired(self, int64_t before, int64_t max_rows):
        """Finds the keys whose timeout is now less than `before`, and their values.

        The cost grows with the result, and with the dead records of the indexes, which are walked once.

        Args:
            max_rows: of a batch.

        Returns:
            An iterator of pairs of aligned pyarrow binary arrays, in no order. Later updates do not show.

        Raises:
            ValueError: the image was made without a timeout offset, or max_rows is less than 1.
        """
        return Expiry(self, before, max_rows)

    def next_expiry(self):
        """Returns the least timeout of all keys as they are now, or None.

        Raises:
            ValueError: the image was made without a timeout offset.
        """
        return next_expiry(self)

    def seal(self):
        """Returns the updates as a layer. Afterwards the transaction can only be read."""
        cdef Layer layer
        self.enter(True)
        try:
            layer = sealed_layer(
                &self.records, self.records_size, self.own.row_checksums, self.num_puts + self.num_removes
            )
            self.own_records = layer.buffer.data
            layer.base_map = weakref.ref(self.map_)
            layer.base_layer = <uint32_t> self.layer
            layer.more_keys = self.num_keys - self.map_.key_counts[self.layer]
            layer.expiry_cursors, self.cursors = self.cursors, None
            layer.is_whole = self.own_puts == self.num_keys
            layer.is_distinct = self.num_removes == 0 and self.num_puts == self.own.keys
            self.sealed = layer
            self.got = None
            buffer_free(&self.got_hashes)
        finally:
            self.busy = False
        return layer


cdef bint set_key(Lookup* out, bytes key) except False:
    out.key = <const uint8_t*> PyBytes_AS_STRING(key)
    if PyBytes_GET_SIZE(key) > MOST_BYTES:
        raise too_large("the key")
    out.size = <int32_t> PyBytes_GET_SIZE(key)
    return True


cdef inline int set_keys(const BinaryValues* keys, int64_t start, Lookup* out) noexcept nogil:
    """Sets `key` and `size` of a group of keys, and returns its number of keys."""
    cdef int n = <int> min(keys.length - start, GROUP)
    cdef int i
    for i in range(n):
        out[i].key = value_of(keys, start + i)
        out[i].size = <int32_t> size_of(keys, start + i)
    return n
