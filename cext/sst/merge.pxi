# Merges runs: of each user key the newest entry counts, but for merge operands, which are joined down to a value.

@cython.final
cdef class Merge:
    """Merges runs of tables and an overlay.

    Args:
        runs: iterators of tables whose keys follow each other, the newest run first. A table has

            path: of the file, for messages
            index, index_offset: the decompressed index block, and where it is in the file
            data_end: where the blocks of the file end
            most_plain: bytes that a block has at most once decompressed
            checksum, context: of the footer
            has_sizes: whether compressed blocks begin with their size as a varint; else `decompress` takes them
            delta_values, user_keys: of the index
            sequence: the sequence number of all entries of an ingested file, otherwise None
            keys: the first and the last internal key, as the MANIFEST has them
            tombstones: (first key, end, sequence number, limit at the first key, limit at the end) of each
                range deletion
            window(offset, size): the bytes of the file from an offset on, at least `size`
            decompress(compression, contents): the bytes of a block

        overlay: what is newer than the runs.
        delimiter: what joins merge operands.
        first, end: only keys from the first on and before the end.
        chunk_bytes: of data that `read` returns at a time.
        most_bytes: of a key and its value, and of the sizes of operands that are held.
    """

    cdef Cursor* cursors
    cdef int num_runs
    cdef Queue queue
    cdef Cursor* waiting
    cdef list runs, tables, indexes, windows, bodies
    cdef Overlay overlay
    cdef object keep            # what tombstones point into
    cdef Tombstones stones
    cdef Bounds bounds
    cdef bytes first_key, end_key, delimiter
    cdef object data, key_spans, value_spans
    cdef Chunk chunk            # in these buffers
    cdef readonly bint ended
    cdef bint failed
    # The key at hand.
    cdef Taken last
    cdef bint has_last, settled
    cdef GrowableBuffer last_buffer
    # Its merge operands, from the newest to the oldest: int64 sizes, bytes.
    cdef GrowableBuffer operands, operand_sizes
    cdef int64_t num_operands, operands_size, most_bytes
    cdef bint busy

    def __cinit__(self, runs, Overlay overlay=None, *, bytes delimiter not None, bytes first=None, bytes end=None,
                  int64_t chunk_bytes=2 << 20, int64_t most_bytes=MAX_RECORD):
        cdef int i, more = overlay is not None and len(overlay) > 0
        cdef Cursor* c
        self.runs = [None] * more + [iter(run) for run in runs]
        self.num_runs = <int> len(self.runs)
        self.tables = [None] * self.num_runs
        self.indexes = [None] * self.num_runs
        self.windows = [None] * self.num_runs
        self.bodies = [None] * self.num_runs
        self.delimiter = delimiter
        self.most_bytes = min(most_bytes, MAX_RECORD)
        self.keep = []
        self.first_key, self.end_key = first, end
        if first is not None:
            self.bounds.first = <const uint8_t*> PyBytes_AS_STRING(first)
            self.bounds.first_size = PyBytes_GET_SIZE(first)
        if end is not None:
            self.bounds.end = <const uint8_t*> PyBytes_AS_STRING(end)
            self.bounds.end_size = PyBytes_GET_SIZE(end)
        self.cursors = <Cursor*> calloc(self.num_runs + 1, sizeof(Cursor))
        self.queue.order = <Cursor**> calloc(self.num_runs + 1, sizeof(Cursor*))
        self.queue.heads = <uint64_t*> calloc(max(self.num_runs, FEW_LANES), sizeof(uint64_t))
        self.queue.lanes = <Lane*> calloc(max(self.num_runs, FEW_LANES), sizeof(Lane))
        if (
            self.cursors == NULL or self.queue.order == NULL or self.queue.heads == NULL or self.queue.lanes == NULL
        ):
            raise MemoryError
        for i in range(self.num_runs):
            c = &self.cursors[i]
            c.number = i
            c.seeking = first is not None
            self.queue.order[i] = c
        self.queue.unplaced = self.num_runs
        if more:
            self.begin_overlay(overlay)
        self.make_room(min(max(chunk_bytes, 4096), MAX_RECORD))
        self.chunk.max_count = max(self.chunk.capacity // 16, 1)
        self.key_spans = pa.allocate_buffer(8 * self.chunk.max_count)
        self.value_spans = pa.allocate_buffer(8 * self.chunk.max_count)
        self.chunk.keys = <int32_t*> <uintptr_t> self.key_spans.address
        self.chunk.values = <int32_t*> <uintptr_t> self.value_spans.address

    def __dealloc__(self):
        cdef int i
        if self.cursors != NULL:
            for i in range(self.num_runs):
                cursor_free(&self.cursors[i])
        free(self.cursors)
        free(self.queue.order)
        free(self.queue.heads)
        free(self.queue.lanes)
        free(self.stones.all)
        free(self.stones.active)
        buffer_free(&self.last_buffer)
        buffer_free(&self.operands)
        buffer_free(&self.operand_sizes)

    cdef int begin_overlay(self, Overlay overlay) except -1:
        cdef Record* record
        cdef Tombstone stone
        cdef int64_t i
        overlay.sort()
        self.overlay = overlay
        record = overlay.first
        self.cursors[0].record = record
        self.cursors[0].records_end = record + overlay.count
        for i in range(overlay.count):
            if record[i].kind == RANGE_DELETION:
                stone.first = record[i].key
                stone.first_size = record[i].key_size
                stone.end = record[i].key + record[i].key_size
                stone.end_size = record[i].value_size
                stone.sequence = record[i].sequence
                stone.first_limit = UINT64_MAX
                stone.end_limit = NONE_AT_END
                if not tombstones_add(&self.stones, stone):
                    raise MemoryError
        tombstones_sort(&self.stones)
        return 0

    cdef int make_room(self, int64_t capacity) except -1:
        # What was handed out keeps its buffer.
        self.data = pa.allocate_buffer(capacity + SLACK)
        self.chunk.data = <uint8_t*> <uintptr_t> self.data.address
        self.chunk.capacity = capacity
        return 0

    def read(self):
        """Merges until a chunk is full, or all is merged.

        Returns:
            None at the end; otherwise data, spans of keys, spans of values, as RecordChunk has them. They are
            overwritten by the next call.

        Raises:
            CorruptFileError: a file is damaged.
            SizeLimitError: a key and its value take 1 GiB or more, or are made of 128 Mi operands.
            RuntimeError: an earlier call failed, so rows are missing.
        """
        cdef Step step
        begin(&self.busy)
        try:
            if self.failed:
                raise RuntimeError("the merge failed earlier, and cannot go on")
            if self.ended:
                return None
            self.failed = True  # unless this call gets to its end
            self.keep_last()
            self.chunk.filled = self.chunk.count = 0
            self.queue.is_stale = True  # by now keys may share more
            while True:
                with nogil:
                    step = self.merge()
                if step == CHUNK_FULL:
                    break
                if step == AT_END:
                    self.ended = True
                    break
                self.supply(step)
            self.failed = False
            if self.chunk.count == 0:
                return None
            return (
                self.data.slice(0, self.chunk.filled),
                self.key_spans.slice(0, 8 * self.chunk.count),
                self.value_spans.slice(0, 8 * self.chunk.count),
            )
        finally:
            self.busy = False

    cdef int keep_last(self) except -1:
        """Copies the last key out of the chunk, which is overwritten."""
        if self.has_last and self.last.key != self.last_buffer.data:
            if not self.set_last(self.last.key, self.last.key_size):
                raise MemoryError
        return 0

    cdef bint set_last(self, const uint8_t* key, int64_t size) noexcept nogil:
        if not buffer_need(&self.last_buffer, size + 1):
            return False
        copy_bytes(self.last_buffer.data, key, size)
        self.last.key = self.last_buffer.data
        self.last.key_size = size
        return True

    cdef int supply(self, Step step) except -1:
        """Gets what the merge has to wait for."""
        cdef Cursor* c = self.waiting
        cdef const uint8_t[::1] view
        cdef int64_t size
        if step == ROOM_NEEDED:
            size = self.room_needed()
            if self.is_too_much():
                raise SizeLimitError(
                    f"a key and its value, of {self.num_operands} operands, take {size} bytes or more; at most "
                    f"{self.most_bytes} can be read, of {self.most_bytes // 8} operands"
                    if self.num_operands
                    else f"a key and its value take {size} bytes or more; at most {self.most_bytes} can be read"
                )
            self.keep_last()
            self.make_room(size)
        elif step == TABLE_NEEDED:
            self.end_table(c)
            table = next(self.runs[c.number], None)
            if table is None:
                c.ended = True
                return 0
            self.begin_table(c, table)
        elif step == WINDOW_NEEDED:
            size = c.handle_size + TRAILER
            table = self.tables[c.number]
            window = memoryview(table.window(c.handle_offset, size)).cast("B")
            view = window
            if view.shape[0] < size:
                raise CorruptFileError("the file ends within this block", table.path, c.handle_offset, REMEDY)
            self.windows[c.number] = window
            c.window = &view[0]
            c.window_start = c.handle_offset
            c.window_size = view.shape[0]
        elif step == BODY_NEEDED:
            self.begin_body(c)
        else:
            self.fail(c)
        return 0

    cdef int begin_table(self, Cursor* c, table) except -1:
        cdef Tombstone stone
        cdef bytes index = table.index, smallest = table.keys[0], first, end
        cdef int64_t size = PyBytes_GET_SIZE(index)
        cdef const uint8_t* p = <const uint8_t*> PyBytes_AS_STRING(index)
        if min(map(len, table.keys)) < 8:
            raise ValueError("the keys of a table are internal ones")
        self.tables[c.number] = table
        self.indexes[c.number] = index
        c.smallest = <const uint8_t*> PyBytes_AS_STRING(smallest)
        c.smallest_size = PyBytes_GET_SIZE(smallest)
        c.has_tombstones = len(table.tombstones) > 0
        c.index = p
        c.index_at = 0
        c.index_offset = c.block_offset = table.index_offset
        c.index_end = entries_end(p, size)
        c.index_key_size = c.before_size = c.internal_size = 0
        c.handle_offset = c.handle_size = c.handle_end = 0
        c.window_size = c.window_start = 0
        c.at = c.end = 0
        c.is_last = c.has_handle = False
        c.data_end = table.data_end
        c.most_plain = table.most_plain
        c.checksum = table.checksum
        c.context = table.context
        c.has_sizes = table.has_sizes
        c.delta_values = table.delta_values
        c.user_keys = table.user_keys
        c.ingested = table.sequence is not None
        c.ingested_sequence = table.sequence or 0
        if c.index_end < 0:
            raise CorruptFileError(PROBLEMS[BAD_BLOCK], table.path, c.index_offset, REMEDY)
        for first, end, stone.sequence, stone.first_limit, stone.end_limit in table.tombstones:
            stone.first = <const uint8_t*> PyBytes_AS_STRING(first)
            stone.first_size = PyBytes_GET_SIZE(first)
            stone.end = <const uint8_t*> PyBytes_AS_STRING(end)
            stone.end_size = PyBytes_GET_SIZE(end)
            self.keep.append((first, end))
            if not tombstones_add(&self.stones, stone):
                raise MemoryError
        if table.tombstones:
            tombstones_sort(&self.stones)
        return 0

    cdef int end_table(self, Cursor* c) except -1:
        """Compares the last key of a file that was read to its end."""
        cdef bytes largest
        cdef int64_t size
        table = self.tables[c.number]
        if table is None or c.internal_size < 8:
            return 0
        largest = table.keys[1]
        size = PyBytes_GET_SIZE(largest)
        if not is_bound(c, <const uint8_t*> PyBytes_AS_STRING(largest), size, compare_keys(
            c.key_buffer.data, c.internal_size - 8, <const uint8_t*> PyBytes_AS_STRING(largest), size - 8
        )):
            c.fault = BAD_RANGE
            self.fail(c)
        return 0

    cdef int begin_body(self, Cursor* c) except -1:
        """Decompresses a block that is rarely met."""
        cdef const uint8_t* p = c.window + (c.handle_offset - c.window_start)
        cdef int64_t size
        cdef bytes body
        table = self.tables[c.number]
        try:
            body = table.decompress(p[c.handle_size], <bytes> (<const char*> p)[: c.handle_size])
        except StateStoreError as error:
            raise type(error)(error.message, table.path, c.handle_offset, error.remedy or REMEDY) from None
        self.bodies[c.number] = body
        size = PyBytes_GET_SIZE(body)
        if begin_block(c, &self.bounds, <const uint8_t*> PyBytes_AS_STRING(body), size, size) == FAILED:
            self.fail(c)
        return 0

    cdef int fail(self, Cursor* c) except -1:
        table = self.tables[c.number]
        if c.fault == NO_MEMORY:
            raise MemoryError
        if c.fault == TOO_LARGE:
            raise SizeLimitError("a block of 2 GiB or more cannot be read", table.path, c.block_offset)
        if c.fault == HASHED_BLOCK:
            raise UnsupportedProviderError(
                "the file has a hash index in its data blocks, which Spark does not write and this release does not "
                "read",
                table.path,
                c.block_offset,
                "Read the database with RocksDB",
            )
        if c.fault == BAD_KIND:
            raise UnsupportedProviderError(
                f"the file has an entry of kind {c.kind}, which Spark does not write "
                "(blob files, wide columns and timestamps are not read)",
                table.path,
                c.block_offset,
                "Read the database with RocksDB",
            )
        raise CorruptFileError(PROBLEMS[c.fault], table.path, c.block_offset, REMEDY)

    cdef int64_t room_needed(self) noexcept nogil:
        cdef int64_t joined = self.operands_size + self.num_operands * PyBytes_GET_SIZE(self.delimiter)
        if self.num_operands:
            return self.last.key_size + joined
        return self.queue.order[self.queue.best].key_size + self.queue.order[self.queue.best].value_size

    cdef bint is_too_much(self) noexcept nogil:
        """Whether the row at hand is not to be read. Operands of no bytes take memory, too."""
        return self.room_needed() > self.most_bytes or 8 * self.num_operands > self.most_bytes

    cdef Step merge(self) noexcept nogil:
        cdef Queue* queue = &self.queue
        cdef Cursor* c
        cdef Step step
        cdef int order
        while True:
            step = place(queue, &self.bounds)
            if step != AT_ENTRY:
                self.waiting = queue.order[queue.placed]
                return step
            if not self.num_operands and not self.stones.count and merge_plain(
                queue, &self.chunk, &self.bounds, &self.last
            ):
                self.settled = True
                continue
            if queue.placed == 0:
                break
            if find_best(queue.heads, queue.placed, &queue.best):
                break_ties(queue)
            c = queue.order[queue.best]
            order = -1
            if self.has_last and not (queue.has_last_head and queue.heads[queue.best] > queue.last_head):
                order = compare_keys(self.last.key, self.last.key_size, c.key, c.key_size)
            if order < 0:
                if self.num_operands and not self.emit_joined():
                    return CHUNK_FULL if self.chunk.count else ROOM_NEEDED
                if c.kind == VALUE and not has_room(&self.chunk, c.key_size + c.value_size):
                    return CHUNK_FULL if self.chunk.count else ROOM_NEEDED
                if queue.has_last_head and queue.heads[queue.best] == queue.last_head:
                    note_alike(queue)
                queue.last_head = queue.heads[queue.best]
                queue.has_last_head = True
                if not self.begin_key(c):
                    self.waiting = c
                    return failed(c, NO_MEMORY)
            elif order > 0 or c.sequence > self.last.sequence or (
                c.sequence == self.last.sequence and c.number == self.last.number
            ):
                self.waiting = c
                return failed(c, BAD_ORDER)
            elif not self.settled:
                if not self.continue_key(c):
                    self.waiting = c
                    return failed(c, NO_MEMORY)
                if self.is_too_much():
                    return ROOM_NEEDED
            self.last.sequence = c.sequence
            self.last.number = c.number
            step_best(queue, &self.bounds, self.last.key)
        if self.num_operands and not self.emit_joined():
            return CHUNK_FULL if self.chunk.count else ROOM_NEEDED
        return AT_END

    cdef bint begin_key(self, Cursor* c) noexcept nogil:
        """Takes the newest entry of a key. False: no memory."""
        self.has_last = True
        self.settled = True
        if c.kind == VALUE or c.kind == MERGE:
            if not self.stones.count or not is_covered(&self.stones, c.key, c.key_size, c.sequence):
                if c.kind == VALUE:
                    self.last.key = append_key(&self.chunk, c.key, c.key_size)
                    self.last.key_size = c.key_size
                    append_value(&self.chunk, c.value, c.value_size)
                    return True
                self.settled = False
                return self.set_last(c.key, c.key_size) and self.push(c)
        return self.set_last(c.key, c.key_size)

    cdef bint continue_key(self, Cursor* c) noexcept nogil:
        """Takes an older entry below merge operands. False: no memory."""
        self.settled = c.kind != MERGE
        if c.kind == VALUE or c.kind == MERGE:
            if self.stones.count and is_covered(&self.stones, c.key, c.key_size, c.sequence):
                self.settled = True
                return True
            return self.push(c)
        return True

    cdef bint push(self, Cursor* c) noexcept nogil:
        if (
            not buffer_need(&self.operands, self.operands_size + c.value_size + 1)
            or not buffer_need(&self.operand_sizes, 8 * (self.num_operands + 1))
        ):
            return False
        copy_bytes(self.operands.data + self.operands_size, c.value, c.value_size)
        (<int64_t*> self.operand_sizes.data)[self.num_operands] = c.value_size
        self.operands_size += c.value_size
        self.num_operands += 1
        return True

    cdef bint emit_joined(self) noexcept nogil:
        """Joins the operands of the last key, from the oldest to the newest. False: no room."""
        cdef const uint8_t* delimiter = <const uint8_t*> PyBytes_AS_STRING(self.delimiter)
        cdef int64_t between = PyBytes_GET_SIZE(self.delimiter), at = self.operands_size, size
        cdef int64_t i = self.num_operands
        if not has_room(&self.chunk, self.room_needed()):
            return False
        self.last.key = append_key(&self.chunk, self.last.key, self.last.key_size)
        append_value(&self.chunk, NULL, 0)
        while i > 0:
            i -= 1
            size = (<int64_t*> self.operand_sizes.data)[i]
            at -= size
            extend_value(&self.chunk, self.operands.data + at, size)
            if i:
                extend_value(&self.chunk, delimiter, between)
        self.num_operands = self.operands_size = 0
        return True
