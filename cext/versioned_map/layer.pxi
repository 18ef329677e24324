cdef class Layer:
    """The updates that lead from one version to the next, as records: the uncompressed delta. Immutable."""

    cdef GrowableBuffer buffer
    cdef bint row_checksums
    cdef readonly int64_t num_records
    # Of a transaction's own layer: which state it is on, and how many keys more there are after it.
    cdef object base_map
    cdef uint32_t base_layer
    cdef int64_t more_keys
    cdef readonly bint is_whole # nothing else is there after it: its puts are all
    cdef bint is_distinct       # each of its records puts another key
    cdef list expiry_cursors       # and how far it has walked the indexes
    cdef int64_t size
    cdef ExpiryIndex expiry_index

    def __init__(self):
        raise TypeError("use LayerBuilder or Transaction.seal")

    def __dealloc__(self):
        buffer_free(&self.buffer)

    @property
    def nbytes(self):
        return self.buffer.capacity

    cdef ExpiryIndex timeouts(self, int64_t timeout_offset):
        """Returns the index by timeout, made at the first call. Keep a reference while reading it without the GIL."""
        cdef ExpiryIndex index = self.expiry_index
        cdef ExpiryBuild build
        cdef Fault fault = Fault(NONE, 0)
        if index is not None and index.timeout_offset == timeout_offset:
            return index
        index = ExpiryIndex()
        index.timeout_offset = timeout_offset
        memset(&build, 0, sizeof(build))
        with nogil:
            while expiry_step(
                &build, self.buffer.data, self.size - 4, self.row_checksums, timeout_offset, &index.buffer, &fault
            ):
                pass
            expiry_free(&build)
        if fault.kind != NONE:
            raise failure(&fault, None)
        index.view = expiry_view(index.buffer.data, build.sort.count)
        self.expiry_index = index
        return index

    def image(self, *, prefix=None, timeout_offset=None):
        """An image of these records, which it shares; None where they are not, as they stand, all that there is."""
        cdef Image image
        cdef Fault fault = Fault(NONE, 0)
        cdef Indexing work
        if not self.is_whole or not self.is_distinct:
            return None
        image = new_image(self.row_checksums, prefix, timeout_offset)
        image.layer = self
        memset(&work, 0, sizeof(work))
        with nogil:
            if start_index(image, &work, self.buffer.data, self.size - 4, self.num_records, &fault):
                while index_step(image, &work, &fault):
                    pass
            set_records(image, work.live)
            while fault.kind == NONE and other_index_step(image, &work, &fault):
                pass
            indexing_free(&work)
        if fault.kind != NONE:
            raise failure(&fault, None)
        return image

    @property
    def records(self):
        """The records and their end mark as a pyarrow.Buffer."""
        return pa.foreign_buffer(<uintptr_t> self.buffer.data, self.size, self)


cdef Layer sealed_layer(GrowableBuffer* buffer, int64_t size, bint row_checksums, int64_t num_records):
    """A layer of the records in a buffer, which it takes over."""
    cdef Layer layer = Layer.__new__(Layer)
    if not buffer_need(buffer, size + 4) or not buffer_resize(buffer, size + 4):
        raise MemoryError
    write_size(buffer.data + size, -1)
    layer.buffer = buffer[0]
    buffer[0] = GrowableBuffer(NULL, 0, 0)
    layer.size = size + 4
    layer.row_checksums = row_checksums
    layer.num_records = num_records
    return layer


cdef class LayerBuilder:
    """Makes a layer of the records of a delta that is read from its file."""

    cdef GrowableBuffer buffer
    cdef bint row_checksums, finished, busy
    cdef int64_t size, count

    def __init__(self, *, bint row_checksums):
        self.row_checksums = row_checksums

    def __dealloc__(self):
        buffer_free(&self.buffer)

    def append(self, const uint8_t[::1] data not None, keys not None, values not None):
        """Copies records; the arguments are those of ImageBuilder.append, and a value of size -1 is a tombstone.

        Raises:
            ValueError: the spans are not those of records; nothing of the call has been appended.
        """
        if self.finished:
            raise ValueError("the layer is finished")
        self.count += append_records(
            &self.busy, &self.buffer, &self.size, self.row_checksums, True, data, keys, values
        )

    def append_layer(self, Layer layer not None):
        """Copies the records of another layer.

        Raises:
            ValueError: one of the two has row checksums, and the other has none.
        """
        cdef bint good
        if self.finished:
            raise ValueError("the layer is finished")
        if layer.row_checksums != self.row_checksums:
            raise ValueError("the layers do not agree about row checksums")
        begin(&self.busy)
        with nogil:
            good = append_bytes(&self.buffer, &self.size, layer.buffer.data, layer.size - 4)
        self.busy = False
        if not good:
            raise MemoryError
        self.count += layer.num_records

    def finish(self):
        """The layer. Ends the builder."""
        if self.finished:
            raise ValueError("the layer is finished")
        begin(&self.busy)  # and stays so
        self.finished = True
        return sealed_layer(&self.buffer, self.size, self.row_checksums, self.count)
