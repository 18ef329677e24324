# Copies records out of chunks, and makes an image of them.

cdef bint copy_records(
    GrowableBuffer* buffer, int64_t* size, bint row_checksums, bint tombstones, const uint8_t* data, int64_t data_size,
    const int32_t* keys, const int32_t* values, int64_t n, Fault* fault,
) noexcept nogil:
    """Appends records to a buffer, adjacent ones at once. False without a fault: the spans are wrong."""
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
            if not append_bytes(buffer, size, data + from_, to - from_):
                fault.kind = OUT_OF_MEMORY
                return False
            from_ = start
        to = stop
    if not append_bytes(buffer, size, data + from_, to - from_):
        fault.kind = OUT_OF_MEMORY
        return False
    return True


cdef bint append_bytes(GrowableBuffer* buffer, int64_t* size, const uint8_t* data, int64_t more) noexcept nogil:
    if not buffer_need(buffer, size[0] + more + 4):  # room for the end mark
        return False
    if more:
        memcpy(buffer.data + size[0], data, more)
    size[0] += more
    return True


cdef append_records(
    bint* busy, GrowableBuffer* buffer, int64_t* size, bint row_checksums, bint tombstones, const uint8_t[::1] data,
    keys, values
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
                buffer, size, row_checksums, tombstones, &data[0], data.shape[0], key, value, n, &fault
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
        timeout_offset: of the long in a value that `expired` goes by: of a column in a row of up to 64.
        expected_bytes: size of all records, where it is known.
    """

    cdef Image image
    cdef int64_t size, count
    cdef bint busy

    def __init__(self, *, bint row_checksums, prefix=None, timeout_offset=None, int64_t expected_bytes=0):
        self.image = new_image(row_checksums, prefix, timeout_offset)
        if not buffer_need(&self.image.records_buffer, min(max(expected_bytes, 0), MOST_RECORD_BYTES) + 4):
            raise MemoryError

    def append(self, const uint8_t[::1] data not None, keys not None, values not None):
        """Copies records, none of which is a tombstone.

        Args:
            data, keys, values: as RecordParser and read_chunks have them: bytes, and spans of the records in them.

        Raises:
            ValueError: the spans are not those of put records; nothing of the call has been appended.
        """
        if self.image is None:
            raise ValueError("the image is finished")
        self.count += append_records(
            &self.busy, &self.image.records_buffer, &self.size, self.image.view.row_checksums, False, data, keys, values
        )

    def finish(self):
        """The image. Ends the builder."""
        cdef Image image = self.image
        cdef Fault fault = Fault(NONE, 0)
        cdef Indexing work
        if image is None:
            raise ValueError("the image is finished")
        begin(&self.busy)  # and stays so
        self.image = None
        memset(&work, 0, sizeof(work))
        with nogil:
            finish_image(image, &work, self.size, self.count, &fault)
            indexing_free(&work)
        if fault.kind != NONE:
            raise failure(&fault, None)
        return image


cdef Image new_image(bint row_checksums, prefix, timeout_offset):
    """An image that is yet to be filled."""
    cdef Image image = Image.__new__(Image)
    image.set_indexes(prefix, timeout_offset)
    image.metadata = b""
    image.view.row_checksums = row_checksums
    image.view.seed = new_hash_seed()
    return image


cdef bint finish_image(Image image, Indexing* work, int64_t size, int64_t count, Fault* fault) noexcept nogil:
    """All that is left to do for an image whose records are there. False: a fault."""
    if not index_records(image, work, size, count, fault):
        return False
    if work.live < count:
        drop_dead(image, &size)
        if not index_records(image, work, size, work.live, fault):
            return False
    if not end_records(image, size, fault):
        return False
    set_records(image, work.live)
    while other_index_step(image, work, fault):
        pass
    return fault.kind == NONE


cdef bint index_records(Image image, Indexing* work, int64_t size, int64_t count, Fault* fault) noexcept nogil:
    if not start_index(image, work, image.records_buffer.data, size, count, fault):
        return False
    while index_step(image, work, fault):
        pass
    return fault.kind == NONE


cdef bint end_records(Image image, int64_t size, Fault* fault) noexcept nogil:
    """Writes the end mark, for which there is room, and frees the rest of the buffer."""
    write_size(image.records_buffer.data + size, -1)
    if not buffer_resize(&image.records_buffer, size + 4):
        fault.kind = OUT_OF_MEMORY
        return False
    image.view.records = image.records_buffer.data
    return True
