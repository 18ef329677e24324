cdef class Image:
    """One version's whole state, immutable. Made by `Image.empty`, `Image.open` and `ImageBuilder.finish`."""

    cdef ImageView view
    cdef Plan plan
    cdef GrowableBuffer records_buffer, index_buffer, prefix_slots, prefix_entries, expiry_buffer, checked_buffer
    cdef int64_t records_size, index_size, expiry_size
    cdef int64_t[2] prefix_sizes    # of the slots, of the entries
    cdef bytes kinds
    cdef object buffer          # of a file: the whole of it
    cdef object layer           # whose records these are; None: they are the image's own
    cdef Remains remains        # what takes its memory in the end; None: that is freed at once
    cdef object drop_pages         # of a mapped image: what `drop_resident_pages` calls
    cdef str path
    cdef readonly bytes metadata
    cdef readonly int64_t num_keys

    def __init__(self):
        raise TypeError("use Image.open, Image.empty or ImageBuilder")

    def __dealloc__(self):
        cdef Remains remains = self.remains if self.remains is not None else Remains()
        remains.take(&self.records_buffer)
        remains.take(&self.index_buffer)
        remains.take(&self.prefix_slots)
        remains.take(&self.prefix_entries)
        remains.take(&self.expiry_buffer)
        remains.take(&self.checked_buffer)

    @property
    def row_checksums(self):
        return self.view.row_checksums

    @property
    def nbytes(self):
        """Bytes of the records and the indexes, in memory or mapped."""
        return (
            self.records_size + self.index_size + self.prefix_sizes[0] + self.prefix_sizes[1] + self.expiry_size
            + self.checked_buffer.capacity
        )

    @property
    def prefix(self):
        """The plan of `prefix_scan`; None where there is no index by prefixes."""
        return (self.plan.key_columns, self.kinds) if self.plan.columns else None

    @property
    def timeout_offset(self):
        """The offset of the timeout in a value; None where there is no index by timeout."""
        return self.view.timeout_offset or None

    @property
    def records(self):
        """The records and their end mark as a pyarrow.Buffer: the uncompressed snapshot. Not verified, see `verify`."""
        return self.section(self.view.records, self.records_size)

    cdef section(self, const uint8_t* start, int64_t size):
        if size == 0:
            return None
        if self.buffer is not None:
            return self.buffer.slice(start - self.view.blocks + self.view.blocks_at, size)
        return pa.foreign_buffer(<uintptr_t> start, size, self)

    @staticmethod
    def empty(*, bint row_checksums, prefix=None, timeout_offset=None):
        """The image of version 0."""
        return ImageBuilder(row_checksums=row_checksums, prefix=prefix, timeout_offset=timeout_offset).finish()

    @staticmethod
    def open(buffer not None, str path not None, *, drop_pages=None):
        """An image on the bytes of an image file, which are verified as they are touched.

        Args:
            buffer: a pyarrow.Buffer of the whole file.
            path: of the file, for errors.
            drop_pages: called by `drop_resident_pages` with offset and length; None if the file is not mapped.

        Raises:
            CorruptFileError: the header is damaged, or the file's length is not the one that it tells.
            UnsupportedVersionError: the file is of another format version.
        """
        image = open_image(buffer, path)
        image.drop_pages = drop_pages
        return image

    def verify(self, step=None):
        """Verifies every block that was not touched yet.

        Args:
            step: called after each 256 KiB.

        Raises:
            ImageDamagedError: a block does not match its checksum.
        """
        cdef Fault fault = Fault(NONE, 0)
        cdef int64_t at = 0
        while at < self.view.size:
            with nogil:
                touch(&self.view, self.view.blocks + at, min(STEP_BYTES, self.view.size - at), &fault)
            if fault.kind != NONE:
                raise failure(&fault, self.path)
            at += STEP_BYTES
            if step is not None:
                step()

    def readinto(self, uint8_t[::1] buffer not None, int64_t position):
        """Copies verified bytes of the records, from `position` on, and returns how many; 0 at their end.

        Raises:
            ImageDamagedError: a block does not match its checksum.
        """
        cdef Fault fault = Fault(NONE, 0)
        cdef int64_t size
        if position < 0:
            raise ValueError(f"position {position} is negative")
        size = min(<int64_t> buffer.shape[0], self.records_size - position)
        if size <= 0:
            return 0
        with nogil:
            if touch(&self.view, self.view.records + position, size, &fault):
                memcpy(&buffer[0], self.view.records + position, size)
        if fault.kind != NONE:
            raise failure(&fault, self.path)
        return size

    def drop_resident_pages(self, step=None):
        """Takes the pages of a mapped file out of this process's memory; the next reads map them again.

        Args:
            step: called after each 64 MiB.
        """
        cdef int64_t at = 0
        while self.drop_pages is not None and at < self.buffer.size:
            self.drop_pages(at, min(DROPPED_BYTES, self.buffer.size - at))
            at += DROPPED_BYTES
            if step is not None:
                step()

    def parts(self, bytes metadata not None, step=None):
        """The image file as buffers, one after the other.

        Args:
            metadata: what `Image.open` gives back; at most 1 MiB.
            step: called after each 256 KiB whose checksums were verified, and each whose checksums were made.
        """
        return image_parts(self, metadata, step)

    cdef set_indexes(self, prefix, timeout_offset):
        if timeout_offset is not None:
            if not 8 <= timeout_offset <= MAX_TIMEOUT_OFFSET or timeout_offset % 8:
                raise ValueError(f"{timeout_offset} is no offset of a column in a row of up to 64")
            self.view.timeout_offset = timeout_offset
        if prefix is not None:
            self.set_plan(prefix)

    cdef set_plan(self, prefix):
        key_columns, kinds = prefix
        self.kinds = bytes(kinds)
        if not 0 < len(self.kinds) <= key_columns <= MAX_KEY_COLUMNS or max(self.kinds) > MAX_KIND:
            raise ValueError(f"{prefix} is no prefix plan: (columns of the key, kinds of the first of them)")
        self.plan = Plan(key_columns, len(self.kinds), <const uint8_t*> PyBytes_AS_STRING(self.kinds))
