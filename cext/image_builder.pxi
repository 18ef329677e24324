# Copying records out of windows, and making an image of them.

cdef bint copy_records(
    Area* area, int64_t* size, bint row_checksums, bint tombstones, const uint8_t* data, int64_t data_size,
    const int32_t* keys, const int32_t* values, int64_t n, Fault* fault,
) noexcept nogil:
    """Appends records to an area, those that stand side by side at once. False without a fault: the spans are wrong."""
    cdef int32_t checksum = 4 if row_checksums else 0, front
    cdef int64_t i, start, stop, from_ = 0, to = 0
    cdef uint32_t key_size
    for i in range(n):
        if values[2 * i + 1] < 0:
            front = 4 + checksum
            key_size = <uint32_t> keys[2 * i + 1] + checksum
            start = <int64_t> keys[2 * i] - front
            stop = <int64_t> keys[2 * i] + keys[2 * i + 1] + 4
            if values[2 * i + 1] != -1 or not tombstones:
                return False
        else:
            front = 4
            key_size = <uint32_t> keys[2 * i + 1]
            start = <int64_t> keys[2 * i] - 4
            stop = <int64_t> keys[2 * i] + keys[2 * i + 1] + 4 + checksum
            if values[2 * i] != stop:
                return False
            stop += values[2 * i + 1]
        if start < 0 or keys[2 * i + 1] < 0 or stop > data_size:
            return False
        if load_be32(data + start) != key_size or load_be32(data + start + 4 + key_size) != (
            <uint32_t> -1 if values[2 * i + 1] < 0 else <uint32_t> values[2 * i + 1] + checksum
        ):
            return False
        if start != to:
            if not append_bytes(area, size, data + from_, to - from_):
                fault.kind = OUT_OF_MEMORY
                return False
            from_ = start
        to = stop
    if not append_bytes(area, size, data + from_, to - from_):
        fault.kind = OUT_OF_MEMORY
        return False
    return True


cdef bint append_bytes(Area* area, int64_t* size, const uint8_t* data, int64_t more) noexcept nogil:
    if not area_need(area, size[0] + more + 4):  # room for the end mark
        return False
    if more:
        memcpy(area.data + size[0], data, more)
    size[0] += more
    return True


cdef append_records(
    bint* busy, Area* area, int64_t* size, bint row_checksums, bint tombstones, const uint8_t[::1] data, keys, values
):
    cdef Fault fault = Fault(NONE, 0)
    cdef int64_t n = keys.size // 8, before
    cdef const int32_t* key = <const int32_t*> <uintptr_t> keys.address
    cdef const int32_t* value = <const int32_t*> <uintptr_t> values.address
    cdef bint good = True
    if values.size != keys.size:
        raise ValueError(f"{n} keys and {values.size // 8} values")
    if n and data.shape[0]:
        begin(busy)
        before = size[0]
        with nogil:
            good = copy_records(
                area, size, row_checksums, tombstones, &data[0], data.shape[0], key, value, n, &fault
            )
        if not good:
            size[0] = before
        busy[0] = False
    if good and (n == 0 or data.shape[0]):
        return n
    if fault.kind != NONE:
        raise failure(&fault, None)
    raise ValueError("the spans are not those of records in `data`" + ("" if tombstones else ", or of tombstones"))


cdef class ImageBuilder:
    """Makes an image of records, in the order in which they come; of a key that comes twice the last one holds.

    Args:
        row_checksums: whether the records carry checksums; they are taken as they are.
        prefix: the plan of prefix_scan.
        indexed_offset: of the long in a value that `due` goes by: of a column in a row of up to 64.
        expected_bytes: size of all records, where it is known.
    """

    cdef Image image
    cdef int64_t size, count
    cdef bint busy

    def __init__(self, *, bint row_checksums, prefix=None, indexed_offset=None, int64_t expected_bytes=0):
        self.image = new_image(row_checksums, prefix, indexed_offset)
        if not area_need(&self.image.records_area, min(max(expected_bytes, 0), MOST_RECORD_BYTES) + 4):
            raise MemoryError

    def append(self, const uint8_t[::1] data not None, keys not None, values not None):
        """Copies records, none of which is a tombstone.

        Args:
            data, keys, values: as RecordParser and read_windows have them: bytes, and spans of the records in them.

        Raises:
            ValueError: the spans are not those of put records; nothing of the call has been appended.
        """
        if self.image is None:
            raise ValueError("the image is finished")
        self.count += append_records(
            &self.busy, &self.image.records_area, &self.size, self.image.view.row_checksums, False, data, keys, values
        )

    def finish(self):
        """The image. Ends the builder."""
        cdef Image image = self.image
        cdef Fault fault = Fault(NONE, 0)
        cdef DueSort sort
        if image is None:
            raise ValueError("the image is finished")
        begin(&self.busy)  # and stays so
        self.image = None
        memset(&sort, 0, sizeof(sort))
        with nogil:
            finish_image(image, self.size, self.count, &fault)
            while fault.kind == NONE and index_image(image, &sort, &fault):
                pass
            due_free(&sort)
        if fault.kind != NONE:
            raise failure(&fault, None)
        return image


cdef Image new_image(bint row_checksums, prefix, indexed_offset):
    """An image that is yet to be filled."""
    cdef Image image = Image.__new__(Image)
    image.set_indexes(prefix, indexed_offset)
    image.metadata = b""
    image.view.row_checksums = row_checksums
    image.view.seed = new_hash_seed()
    return image


cdef bint finish_image(Image image, int64_t size, int64_t count, Fault* fault) noexcept nogil:
    cdef int64_t live = build_index(image, image.records_area.data, size, count, fault)
    if live < 0:
        return False
    if live < count:
        size = drop_dead(image.records_area.data, size, image.view.row_checksums)
        area_free(&image.index_area)
        if build_index(image, image.records_area.data, size, live, fault) < 0:
            return False
    write_size(image.records_area.data + size, -1)
    if not area_resize(&image.records_area, size + 4):
        fault.kind = OUT_OF_MEMORY
        return False
    set_records(image, image.records_area.data, size, live)
    return True


cdef void set_records(Image image, const uint8_t* records, int64_t size, int64_t num_keys) noexcept nogil:
    """The records that were indexed, each of another key, are the image's; the end mark stands behind them."""
    image.view.records = records
    image.view.end = size
    image.records_size = size + 4
    image.num_keys = num_keys
    set_typical_size(&image.view, num_keys)


cdef bint index_image(Image image, DueSort* sort, Fault* fault) noexcept nogil:
    """Does some milliseconds' work towards the index by longs, where there is to be one. Whether there is more to do."""
    cdef ImageView* view = &image.view
    if view.indexed_at == 0:
        return False
    if due_step(sort, view.records, view.end, view.row_checksums, view.indexed_at, &image.due_area, fault):
        return True
    view.due = due_view(image.due_area.data, sort.count)
    image.due_size = due_bytes(sort.count)
    return False


cdef int64_t build_index(Image image, uint8_t* records, int64_t size, int64_t count, Fault* fault) noexcept nogil:
    """Fills a new index with the last record of each key, and returns how many keys there are; -1: a fault.

    The earlier records of a key have the highest bit of their key size set afterwards.
    """
    cdef ImageView* view = &image.view
    cdef Lookup[GROUP] keys
    cdef int64_t[GROUP] offsets
    cdef Record record
    cdef uint64_t slot
    cdef int64_t at = 0, live = 0
    cdef int i, n
    view.records = records
    view.end = size
    view.num_slots = count + (count >> 2) + 1 if count else 0
    if size > MOST_RECORD_BYTES:
        fault.kind = TOO_MUCH_TO_INDEX
        return -1
    image.index_size = whole_blocks(8 * <int64_t> view.num_slots)
    if not area_zeroed(&image.index_area, image.index_size):
        fault.kind = OUT_OF_MEMORY
        return -1
    view.slots = image.index_area.data
    while at < size:
        n = 0
        while n < GROUP and at < size:
            read_record(view.records + at, view.row_checksums, &record)
            keys[n].key = record.key
            keys[n].size = record.key_size
            keys[n].hash = hash_key(record.key, record.key_size, &view.seed)
            image_start(view, &keys[n])
            offsets[n] = at
            at += record.size
            n += 1
        for i in range(n):
            keys[i].where = NOWHERE
            if not image_seek(view, &keys[i], fault) or not image_match(view, &keys[i], fault):
                return -1
            slot = keys[i].slot
            if keys[i].where == NOWHERE:
                live += 1
            else:
                records[keys[i].offset] |= 0x80
                slot = (slot if slot else view.num_slots) - 1
            store_le64(
                image.index_area.data + 8 * slot,
                (keys[i].hash & 0xFFFFFF) << OFFSET_BITS | <uint64_t> (offsets[i] + 1),
            )
    return live


cdef int64_t drop_dead(uint8_t* records, int64_t size, bint row_checksums) noexcept nogil:
    """Closes the gaps that records marked by build_index leave, and returns the size of the rest."""
    cdef Record record
    cdef int64_t at = 0, kept = 0
    cdef bint dead
    while at < size:
        dead = records[at] & 0x80
        records[at] &= 0x7F
        read_record(records + at, row_checksums, &record)
        if not dead:
            memmove(records + kept, records + at, record.size)
            kept += record.size
        at += record.size
    return kept
