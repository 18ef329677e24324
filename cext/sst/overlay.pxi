# The records of changelogs, on top of SST files.

cdef struct Record:
    uint64_t head               # eight bytes of the key, while they are sorted
    uint64_t sequence
    const uint8_t* key          # until they are sorted: the offset in the bytes
    int32_t key_size, value_size
    int32_t kind

# A record of an overlay is newer than all of the files, whose sequence numbers have 56 bits.
cdef uint64_t FIRST_SEQUENCE = <uint64_t> 1 << 56


cdef inline int32_t kind_of(const uint8_t* kinds, int64_t i, int32_t value_size) noexcept nogil:
    if kinds != NULL:
        return kinds[i]
    return DELETION if value_size < 0 else VALUE


cdef class Overlay:
    """Records of changelogs in memory. The changelogs are added from the oldest to the newest."""

    cdef GrowableBuffer bytes, records
    cdef int64_t size, count
    cdef uint64_t next_sequence
    cdef bint sorted, busy

    def __cinit__(self):
        self.next_sequence = FIRST_SEQUENCE

    def __dealloc__(self):
        buffer_free(&self.bytes)
        buffer_free(&self.records)

    def __len__(self):
        return self.count

    def add(self, const uint8_t[::1] data not None, keys not None, values not None, kinds=None):
        """Adds copies of records, in their order.

        Args:
            data: bytes of keys and values.
            keys, values: spans in `data`, pairs of int32: offset, size; the size -1 of a value: deletion.
            kinds: uint8 for each record: 0 deletion, 1 value, 2 merge operand, 7 single deletion, 15 range deletion
                from the key to the value. None: value or deletion, by the value's size.

        Raises:
            ValueError: the spans do not fit, or a merge is under way or was made.
        """
        cdef const int32_t[::1] k = memoryview(keys).cast("B").cast("i")
        cdef const int32_t[::1] v = memoryview(values).cast("B").cast("i")
        cdef const uint8_t[::1] types
        cdef const uint8_t* type_of = NULL
        cdef int64_t count = k.shape[0] // 2
        cdef bint fits
        if v.shape[0] != k.shape[0] or k.shape[0] % 2:
            raise ValueError(f"{k.shape[0]} and {v.shape[0]} numbers are no spans of the same records")
        if count == 0:
            return
        if kinds is not None:
            types = memoryview(kinds).cast("B")
            if types.shape[0] != count:
                raise ValueError(f"{types.shape[0]} kinds of {count} records")
            type_of = &types[0]
        begin(&self.busy)
        try:
            if self.sorted:
                raise ValueError("the overlay was merged already")
            with nogil:
                fits = self.append(&data[0] if data.shape[0] else NULL, data.shape[0], &k[0], &v[0], type_of, count)
            if not fits:
                raise ValueError("a span or a kind of a record makes no sense")
        finally:
            self.busy = False

    cdef bint append(
        self, const uint8_t* data, int64_t size, const int32_t* keys, const int32_t* values, const uint8_t* kinds,
        int64_t count
    ) except -1 nogil:
        cdef int64_t i, room = 0, at = self.size
        cdef Record* record
        cdef int32_t kind, value_size
        for i in range(count):
            value_size = values[2 * i + 1] if values[2 * i + 1] > 0 else 0
            kind = kind_of(kinds, i, values[2 * i + 1])
            if (
                keys[2 * i] < 0 or keys[2 * i + 1] < 0 or <int64_t> keys[2 * i] + keys[2 * i + 1] > size
                or (value_size and (values[2 * i] < 0 or <int64_t> values[2 * i] + value_size > size))
                or kind not in (DELETION, VALUE, MERGE, SINGLE_DELETION, RANGE_DELETION)
            ):
                return False
            room += <int64_t> keys[2 * i + 1] + value_size
        if (
            not buffer_need(&self.bytes, at + room + 1)
            or not buffer_need(&self.records, (self.count + count) * sizeof(Record))
        ):
            with gil:
                raise MemoryError
        record = <Record*> self.records.data + self.count
        for i in range(count):
            value_size = values[2 * i + 1] if values[2 * i + 1] > 0 else 0
            record.kind = kind_of(kinds, i, values[2 * i + 1])
            record.sequence = self.next_sequence + i
            record.key = <const uint8_t*> <uintptr_t> at
            record.key_size = keys[2 * i + 1]
            record.value_size = value_size
            copy_bytes(self.bytes.data + at, data + keys[2 * i], keys[2 * i + 1])
            at += keys[2 * i + 1]
            if value_size:
                copy_bytes(self.bytes.data + at, data + values[2 * i], value_size)
                at += value_size
            record += 1
        self.size = at
        self.count += count
        self.next_sequence += count
        return True

    cdef int sort(self) except -1:
        """Sorts the records, once. Nothing is added afterwards."""
        cdef GrowableBuffer spare
        cdef Record* records = <Record*> self.records.data
        cdef int64_t i
        memset(&spare, 0, sizeof(spare))
        begin(&self.busy)
        try:
            if self.sorted:
                return 0
            if not buffer_need(&spare, self.count * sizeof(Record) + 1):
                raise MemoryError
            with nogil:
                for i in range(self.count):
                    records[i].key = self.bytes.data + <uintptr_t> records[i].key
                reverse_records(records, self.count)
                sort_records(records, <Record*> spare.data, self.count, 0)
            self.sorted = True
        finally:
            self.busy = False
            buffer_free(&spare)
        return 0


cdef void reverse_records(Record* records, int64_t count) noexcept nogil:
    cdef int64_t i
    for i in range(count // 2):
        records[i], records[count - 1 - i] = records[count - 1 - i], records[i]
