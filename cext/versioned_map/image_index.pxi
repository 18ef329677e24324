# Making the indexes of an image, in steps.

# How far they are.
cdef struct Indexing:
    bint in_steps           # whether background work makes them
    uint8_t* records        # of the image: of a key that comes twice the earlier ones are marked
    int64_t pages           # bytes of the index that have their pages
    int64_t at              # the next record to look at
    int64_t seen            # how many were looked at, of
    int64_t count
    int64_t live            # keys
    bint expiry_done, prefix_done
    ExpiryBuild expiry
    PrefixBuild prefix


cdef void indexing_free(Indexing* work) noexcept nogil:
    expiry_free(&work.expiry)
    prefix_build_free(&work.prefix)


cdef bint start_index(
    Image image, Indexing* work, uint8_t* records, int64_t size, int64_t count, Fault* fault
) noexcept nogil:
    """Begins with the index of so many records. False: a fault."""
    cdef ImageView* view = &image.view
    view.records = records
    view.end = size
    view.num_slots = slots_for(count)
    work.records = records
    work.expiry.sort.in_steps = work.prefix.sort.in_steps = work.in_steps
    work.count = count
    work.pages = work.at = work.seen = work.live = 0
    if size > MOST_RECORD_BYTES:
        fault.kind = TOO_MUCH_TO_INDEX
        return False
    image.index_size = whole_blocks(8 * <int64_t> view.num_slots)
    buffer_free(&image.index_buffer)
    if not new_buffer(&image.index_buffer, image.index_size, work.in_steps):
        fault.kind = OUT_OF_MEMORY
        return False
    view.slots = image.index_buffer.data
    return True


cdef bint index_step(Image image, Indexing* work, Fault* fault) noexcept nogil:
    """Enters some records in the index, of each key the last one. False: all are entered, or there is a fault.

    The earlier records of a key have the highest bit of their key size set afterwards.
    """
    cdef ImageView* view = &image.view
    cdef Lookup[GROUP] keys
    cdef int64_t[GROUP] offsets
    cdef Record record
    cdef uint64_t slot
    cdef int64_t stop = work.seen + STEP_RECORDS
    cdef int i, n
    if work.pages < image.index_size:
        work.pages = buffer_make_pages(&image.index_buffer, work.pages, image.index_size)
        return True
    while work.at < view.end and work.seen < stop:
        n = 0
        while n < GROUP and work.at < view.end:
            if work.seen == work.count:
                return bad_record(view, work.at, fault)
            buffer_prefetch(view.records + work.at + AHEAD)
            if not image_record(view, work.at, &record, fault):
                return False
            keys[n].key = record.key
            keys[n].size = record.key_size
            keys[n].hash = hash_key(record.key, record.key_size, &view.seed)
            image_start(view, &keys[n])
            offsets[n] = work.at
            work.at += record.size
            work.seen += 1
            n += 1
        for i in range(n):
            keys[i].where = NOWHERE
            if not image_seek(view, &keys[i], fault) or not image_match(view, &keys[i], fault):
                return False
            slot = keys[i].slot
            if keys[i].where == NOWHERE:
                work.live += 1
            else:
                work.records[keys[i].offset] |= 0x80
                slot = (slot if slot else view.num_slots) - 1
            store_le64(
                image.index_buffer.data + 8 * slot,
                (keys[i].hash & 0xFFFFFF) << OFFSET_BITS | <uint64_t> (offsets[i] + 1),
            )
    if work.at < view.end:
        return True
    return bad_record(view, work.at, fault) if work.seen < work.count else False


cdef void set_records(Image image, int64_t num_keys) noexcept nogil:
    """The records that were indexed, each of another key, are the image's; the end mark stands behind them."""
    image.records_size = image.view.end + 4
    image.num_keys = num_keys
    set_typical_size(&image.view, num_keys)


cdef bint other_index_step(Image image, Indexing* work, Fault* fault) noexcept nogil:
    """Goes on with the indexes by longs and by prefixes, where there are to be any. False: all is done, or a fault."""
    cdef ImageView* view = &image.view
    if view.timeout_offset and not work.expiry_done:
        if expiry_step(
            &work.expiry, view.records, view.end, view.row_checksums, view.timeout_offset, &image.expiry_buffer, fault
        ):
            return True
        if fault.kind != NONE:
            return False
        view.expiry = expiry_view(image.expiry_buffer.data, work.expiry.sort.count)
        image.expiry_size = expiry_bytes(work.expiry.sort.count)
        # The next index sorts in the same memory.
        work.prefix.sort.entries, work.expiry.sort.entries = work.expiry.sort.entries, work.prefix.sort.entries
        work.expiry_done = True
    if image.plan.columns and not work.prefix_done:
        if prefix_step(&work.prefix, view, &image.plan, &image.prefix_slots, &image.prefix_entries, fault):
            return True
        if fault.kind != NONE:
            return False
        view.by_prefix = prefix_view(&work.prefix, image.prefix_slots.data, image.prefix_entries.data)
        image.prefix_sizes[0] = whole_blocks(8 * <int64_t> view.by_prefix.num_slots)
        image.prefix_sizes[1] = whole_blocks(ENTRY * view.by_prefix.count)
        work.prefix_done = True
    return buffer_free_some(&work.prefix.sort.entries)


cdef void drop_dead(Image image, int64_t* size) noexcept nogil:
    """Closes the gaps that records marked by index_step leave, and sets the size of the rest."""
    cdef uint8_t* records = image.records_buffer.data
    cdef Record record
    cdef int64_t at = 0, kept = 0
    cdef bint dead
    while at < size[0]:
        dead = records[at] & 0x80
        records[at] &= 0x7F
        read_record(records + at, image.view.row_checksums, &record)
        if not dead:
            memmove(records + kept, records + at, record.size)
            kept += record.size
        at += record.size
    size[0] = kept
