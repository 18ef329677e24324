# The records of changelogs, on top of SST files.

cdef struct Record:
    uint64_t sequence
    const uint8_t* key          # the value lies behind it
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

    cdef list kept              # the bytes
    cdef list parts             # until they are sorted: records, in the order in which they came
    cdef object records         # once they are sorted
    cdef Record* first          # of these
    cdef int64_t count
    cdef bint busy

    def __cinit__(self):
        self.kept = []
        self.parts = []

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
        cdef int64_t room
        cdef const uint8_t* bytes_ = &data[0] if data.shape[0] else NULL
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
            if self.records is not None:
                raise ValueError("the overlay was merged already")
            with nogil:
                room = room_of(&k[0], &v[0], type_of, count, data.shape[0])
            if room < 0:
                raise ValueError("a span or a kind of a record makes no sense")
            self.append(bytes_, &k[0], &v[0], type_of, count, room)
        finally:
            self.busy = False

    cdef int append(
        self, const uint8_t* data, const int32_t* keys, const int32_t* values, const uint8_t* kinds, int64_t count,
        int64_t room
    ) except -1:
        # Arrow keeps the memory of one overlay for the next one, and nothing that is here moves.
        kept = pa.allocate_buffer(room + 1)
        records = pa.allocate_buffer(count * sizeof(Record))
        cdef uint8_t* out = <uint8_t*> <uintptr_t> kept.address
        cdef Record* record = <Record*> <uintptr_t> records.address
        cdef int64_t i
        cdef int32_t value_size
        with nogil:
            for i in range(count):
                value_size = values[2 * i + 1] if values[2 * i + 1] > 0 else 0
                record.kind = kind_of(kinds, i, values[2 * i + 1])
                record.sequence = FIRST_SEQUENCE + self.count + i
                record.key = out
                record.key_size = keys[2 * i + 1]
                record.value_size = value_size
                copy_bytes(out, data + keys[2 * i], keys[2 * i + 1])
                out += keys[2 * i + 1]
                if value_size:
                    copy_bytes(out, data + values[2 * i], value_size)
                    out += value_size
                record += 1
        self.kept.append(kept)
        self.parts.append(records)
        self.count += count
        return 0

    cdef int sort(self) except -1:
        """Sorts the records, once. Nothing is added afterwards."""
        cdef const Record* part
        cdef Record* record
        cdef Place* places
        cdef Place* room
        cdef int64_t i, count, at = 0
        begin(&self.busy)
        try:
            if self.records is not None:
                return 0
            ordered = pa.allocate_buffer(self.count * sizeof(Place))
            spare = pa.allocate_buffer(self.count * sizeof(Place))
            records = pa.allocate_buffer(self.count * sizeof(Record))
            places = <Place*> <uintptr_t> ordered.address
            room = <Place*> <uintptr_t> spare.address
            self.first = record = <Record*> <uintptr_t> records.address
            for buffer in reversed(self.parts):
                part = <const Record*> <uintptr_t> buffer.address
                count = buffer.size // sizeof(Record)
                with nogil:
                    for i in range(count - 1, -1, -1):
                        places[at].record = part + i
                        at += 1
            with nogil:
                sort_records(places, room, self.count, 0)
                for i in range(self.count):
                    record[i] = places[i].record[0]
            self.records = records
            self.parts.clear()
        finally:
            self.busy = False
        return 0


cdef int64_t room_of(
    const int32_t* keys, const int32_t* values, const uint8_t* kinds, int64_t count, int64_t size
) noexcept nogil:
    """The bytes of the keys and values together; -1: a span or a kind makes no sense."""
    cdef int64_t i, room = 0
    cdef int32_t value_size
    for i in range(count):
        value_size = values[2 * i + 1] if values[2 * i + 1] > 0 else 0
        if (
            keys[2 * i] < 0 or keys[2 * i + 1] < 0 or <int64_t> keys[2 * i] + keys[2 * i + 1] > size
            or (value_size and (values[2 * i] < 0 or <int64_t> values[2 * i] + value_size > size))
            or kind_of(kinds, i, values[2 * i + 1]) not in (DELETION, VALUE, MERGE, SINGLE_DELETION, RANGE_DELETION)
        ):
            return -1
        room += <int64_t> keys[2 * i + 1] + value_size
    return room
