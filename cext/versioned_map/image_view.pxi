# Looks up keys in an image, which is a C struct here, and verifies the blocks that it touches.
#
# Checksums reveal damage, not malice. So every offset and size in the index and the records is compared with the
# buffer, and a search ends after as many steps as there are slots.

cdef enum:
    BLOCK_BITS = 12
    BLOCK = 1 << BLOCK_BITS
    OFFSET_BITS = 40
    ENTRY = OFFSET_BITS // 8  # bytes of an offset in an index's entries
    LINE = 64               # bytes of a cache line, roughly: only the speed depends on it
    MOST_PREFETCHED = 512
    AHEAD = 1024            # distance in bytes at which a walk through records prefetches

cdef int64_t MOST_RECORD_BYTES = ((<int64_t> 1) << OFFSET_BITS) - 2  # offset + 1 takes OFFSET_BITS

# timeout_index.pxi has the layout.
cdef struct ExpiryView:
    const uint8_t* fences
    const uint8_t* entries
    int64_t count

# prefix_index.pxi has the layout.
cdef struct PrefixView:
    const uint8_t* slots
    uint64_t num_slots
    uint64_t homes
    const uint8_t* entries
    int64_t count

cdef struct ImageView:
    const uint8_t* records
    int64_t end                 # of the last record, where the end mark stands
    const uint8_t* slots
    uint64_t num_slots
    HashSeed seed
    bint row_checksums
    int64_t typical_size        # of a record: bytes that are prefetched before it is read
    const uint8_t* blocks       # the first block; the fields from here to `checked` are of files only
    int64_t blocks_at           # its offset in the file
    int64_t size                # from the first block to the end of the file
    const uint8_t* crcs
    uint8_t* checked            # for each block whether it was verified; NULL: no block needs to be
    int64_t timeout_offset      # of the timeout in a value, 0 = there is no index by timeout
    ExpiryView expiry
    PrefixView by_prefix

# `checked` has a byte for each block, not a bit, so that threads do not lose each other's marks. Verifying a block
# twice does no harm.
cdef extern from "shared_byte.h" nogil:
    bint shared_byte(const uint8_t* p) noexcept
    void set_shared_byte(uint8_t* p, uint8_t value) noexcept


cdef inline int64_t whole_blocks(int64_t size) noexcept nogil:
    return (size + BLOCK - 1) & ~<int64_t> (BLOCK - 1)


cdef inline bint touch(const ImageView* view, const uint8_t* p, int64_t size, Fault* fault) noexcept nogil:
    """Verifies the blocks of these bytes, of which there is at least one."""
    cdef int64_t block, last
    if view.checked == NULL:
        return True
    block = (p - view.blocks) >> BLOCK_BITS
    last = (p + size - 1 - view.blocks) >> BLOCK_BITS
    while block <= last:
        if not shared_byte(view.checked + block) and not check_block(view, block, fault):
            return False
        block += 1
    return True


cdef bint check_block(const ImageView* view, int64_t block, Fault* fault) noexcept nogil:
    cdef int64_t at = block << BLOCK_BITS
    if crc32c_update(0, view.blocks + at, min(view.size - at, BLOCK)) != load_le32(view.crcs + 4 * block):
        fault.kind = DAMAGED_BLOCK
        fault.offset = view.blocks_at + at
        return False
    set_shared_byte(view.checked + block, 1)
    return True


cdef inline bint image_record(const ImageView* view, int64_t offset, Record* out, Fault* fault) noexcept nogil:
    """Parses the record at an offset that cannot be trusted."""
    cdef int64_t room = view.end - offset - 8
    cdef int32_t checksum = 4 if view.row_checksums else 0
    cdef const uint8_t* p = view.records + offset
    if offset < 0 or room < checksum:
        return bad_record(view, offset, fault)
    if not touch(view, p, 4, fault):
        return False
    out.key_size = <int32_t> load_be32(p)
    room -= out.key_size
    if out.key_size < 0 or room < checksum:
        return bad_record(view, offset, fault)
    if not touch(view, p + 4, <int64_t> out.key_size + 4, fault):
        return False
    out.key = p + 4
    out.value_size = <int32_t> load_be32(out.key + out.key_size)
    if out.value_size < checksum or room < out.value_size:
        return bad_record(view, offset, fault)
    out.value = out.key + out.key_size + 4
    if out.value_size and not touch(view, out.value, out.value_size, fault):
        return False
    out.size = 8 + <int64_t> out.key_size + out.value_size
    out.value += checksum
    out.value_size -= checksum
    return True


cdef bint bad_record(const ImageView* view, int64_t offset, Fault* fault) noexcept nogil:
    fault.kind = DAMAGED_RECORD
    fault.offset = view.blocks_at + (view.records - view.blocks) + offset if view.blocks != NULL else offset
    return False


cdef inline void store_entry(uint8_t* p, uint64_t offset) noexcept nogil:
    store_le32(p, <uint32_t> offset)
    p[4] = <uint8_t> (offset >> 32)


cdef inline int64_t load_entry(const uint8_t* p) noexcept nogil:
    return <int64_t> load_le32(p) | <int64_t> p[4] << 32


cdef inline uint64_t slots_for(int64_t count) noexcept nogil:
    return <uint64_t> (count + (count >> 2) + 1) if count else 0


cdef inline uint64_t home_slot(const ImageView* view, uint64_t h) noexcept nogil:
    return hash_place(h, view.num_slots)


cdef inline void image_start(const ImageView* view, Lookup* key) noexcept nogil:
    key.slot = home_slot(view, key.hash)
    key.left = view.num_slots
    buffer_prefetch(view.slots + 8 * key.slot)


cdef inline bint image_seek(const ImageView* view, Lookup* key, Fault* fault) noexcept nogil:
    """Moves on to the next slot with the key's tag. Sets `offset` to its record's, or to -1 if there is none."""
    cdef uint64_t slot
    cdef const uint8_t* p
    key.offset = -1
    while key.left:
        p = view.slots + 8 * key.slot
        if not touch(view, p, 8, fault):
            return False
        slot = load_le64(p)
        if slot == 0:
            key.left = 0
            return True
        key.left -= 1
        key.slot += 1
        if key.slot == view.num_slots:
            key.slot = 0
        if (slot >> OFFSET_BITS) == (key.hash & 0xFFFFFF):
            key.offset = <int64_t> (slot & ((<uint64_t> 1 << OFFSET_BITS) - 1)) - 1
            return True
    return True


cdef inline void image_prefetch(const ImageView* view, const Lookup* key) noexcept nogil:
    """Prefetches the record that may be the key's, up to the typical size."""
    cdef int64_t at = 0
    if key.offset >= 0:
        while at < view.typical_size:  # as often for each record, so that branches are predicted
            buffer_prefetch(view.records + key.offset + at)
            at += LINE
        buffer_prefetch(view.records + key.offset + view.typical_size - 1)


cdef inline void set_typical_size(ImageView* view, int64_t num_keys) noexcept nogil:
    view.typical_size = min(view.end // num_keys, MOST_PREFETCHED) if num_keys else 0


cdef inline bint image_match(const ImageView* view, Lookup* key, Fault* fault) noexcept nogil:
    """Finds the key from the position of image_seek on."""
    cdef Record record
    while key.offset >= 0:
        if not image_record(view, key.offset, &record, fault):
            return False
        if are_alike(record.key, record.key_size, key.key, key.size):
            key.where = IN_IMAGE
            key.record = view.records + key.offset
            key.value = record.value
            key.value_size = record.value_size
            return True
        if not image_seek(view, key, fault):
            return False
    return True
