# The image file; versioned_map.pyx has its layout.

cdef bytes MAGIC = b"hdfs.img"

cdef enum:
    IMAGE_VERSION = 3
    HEADER = 192
    MAX_METADATA = 1 << 20


# The sizes that the header tells.
cdef struct Sizes:
    int64_t metadata
    int64_t prefix_kinds
    uint64_t num_slots
    uint64_t prefix_slots
    int64_t prefix_entries
    int64_t num_expired
    int64_t records

cdef struct Sections:
    int64_t crcs_at
    int64_t index_at
    int64_t prefix_slots_at
    int64_t prefix_entries_at
    int64_t expiry_at
    int64_t records_at
    int64_t length
    int64_t num_blocks


cdef Sections sections_of(const Sizes* sizes) noexcept nogil:
    cdef Sections out
    cdef int64_t index_size = whole_blocks(8 * <int64_t> sizes.num_slots)
    cdef int64_t prefix_slots_size = whole_blocks(8 * <int64_t> sizes.prefix_slots)
    cdef int64_t prefix_entries_size = whole_blocks(ENTRY * sizes.prefix_entries)
    cdef int64_t expiry_size = expiry_bytes(sizes.num_expired)
    cdef int64_t indexes = index_size + prefix_slots_size + prefix_entries_size + expiry_size
    out.num_blocks = (indexes + sizes.records + BLOCK - 1) >> BLOCK_BITS
    out.crcs_at = HEADER + ((sizes.metadata + sizes.prefix_kinds + 3) & ~<int64_t> 3)
    out.index_at = whole_blocks(out.crcs_at + 4 * out.num_blocks)
    out.prefix_slots_at = out.index_at + index_size
    out.prefix_entries_at = out.prefix_slots_at + prefix_slots_size
    out.expiry_at = out.prefix_entries_at + prefix_entries_size
    out.records_at = out.expiry_at + expiry_size
    out.length = out.records_at + sizes.records
    return out


cdef uint32_t header_crc(const uint8_t* header, int64_t size) noexcept nogil:
    cdef uint8_t[4] zeros
    memset(zeros, 0, 4)
    return crc32c_update(crc32c_update(crc32c_update(0, header, 12), zeros, 4), header + 16, size - 16)


cdef list image_parts(Image image, bytes metadata, step):
    cdef ImageView* view = &image.view
    cdef Sizes sizes = Sizes(
        len(metadata), image.plan.columns, view.num_slots, view.by_prefix.num_slots, view.by_prefix.count,
        view.expiry.count, image.records_size,
    )
    cdef Sections layout = sections_of(&sizes)
    cdef int64_t at = layout.crcs_at
    cdef GrowableBuffer buffer
    cdef uint8_t* out
    if len(metadata) > MAX_METADATA:
        raise ValueError(f"an image file may have {MAX_METADATA} bytes of metadata, not {len(metadata)}")
    image.verify(step)
    if not buffer_in_steps(&buffer, layout.index_at):
        raise MemoryError
    header = buffer_of(&buffer, layout.index_at)
    out = <uint8_t*> <uintptr_t> header.address
    memcpy(out, PyBytes_AS_STRING(MAGIC), 8)
    store_le32(out + 8, IMAGE_VERSION)
    store_le64(out + 16, layout.length)
    store_le64(out + 24, view.by_prefix.count)
    store_le64(out + 32, view.num_slots)
    store_le64(out + NUM_KEYS_AT, image.num_keys)
    store_le64(out + 48, image.records_size)
    store_le64(out + 56, len(metadata))
    store_le32(out + 64, view.row_checksums)
    store_le32(out + 76, <uint32_t> view.timeout_offset)
    store_le64(out + 80, view.expiry.count)
    store_le64(out + 88, view.by_prefix.homes)
    store_le64(out + 96, view.by_prefix.num_slots)
    store_le32(out + 104, <uint32_t> image.plan.key_columns)
    store_le32(out + 108, <uint32_t> image.plan.columns)
    hash_seed_store(&view.seed, out + 112)
    memcpy(out + HEADER, PyBytes_AS_STRING(metadata), sizes.metadata)
    if sizes.prefix_kinds:
        memcpy(out + HEADER + sizes.metadata, image.plan.kinds, sizes.prefix_kinds)
    sections = [
        image.section(view.slots, image.index_size),
        image.section(view.by_prefix.slots, image.prefix_sizes[0]),
        image.section(view.by_prefix.entries, image.prefix_sizes[1]),
        image.section(view.expiry.fences, image.expiry_size),
        image.records,
    ]
    sections = [section for section in sections if section is not None]
    for section in sections:
        at = store_crcs(out, at, section, step)
    with nogil:
        store_le32(out + 12, header_crc(out, layout.index_at))
    return [header, *sections]


cdef int64_t store_crcs(uint8_t* out, int64_t at, section, step) except -1:
    """Writes the checksums of a section's blocks and returns where the next section's go."""
    cdef const uint8_t* data = <const uint8_t*> <uintptr_t> section.address
    cdef int64_t size = section.size, from_ = 0, stop
    while from_ < size:
        stop = min(from_ + STEP_BYTES, size)
        with nogil:
            while from_ < stop:
                store_le32(out + at, crc32c_update(0, data + from_, min(size - from_, BLOCK)))
                from_ += BLOCK
                at += 4
        if step is not None:
            step()
    return at


cdef Image open_image(buffer, str path):
    cdef const uint8_t* p = <const uint8_t*> <uintptr_t> buffer.address
    cdef int64_t length = buffer.size, num_keys, timeout_offset, key_columns
    cdef uint64_t homes
    cdef Sizes sizes
    cdef Sections sections
    cdef Image image
    cdef bint good
    remedy = "Remove the image: it is built anew from the checkpoint's files"
    if length < HEADER or p[:8] != MAGIC:
        raise CorruptFileError("this is no image file, or its header is damaged", path, 0, remedy)
    if load_le32(p + 8) != IMAGE_VERSION:
        raise UnsupportedVersionError(
            f"an image of format version {load_le32(p + 8)}, and this release knows {IMAGE_VERSION}", path, 8, remedy
        )
    if <int64_t> load_le64(p + 16) != length:
        raise CorruptFileError(
            f"the file has {length} bytes, and its header says {load_le64(p + 16)}", path, 16, remedy
        )
    num_keys = <int64_t> load_le64(p + NUM_KEYS_AT)
    timeout_offset = load_le32(p + 76)
    homes = load_le64(p + 88)
    key_columns = load_le32(p + 104)
    sizes = Sizes(
        <int64_t> load_le64(p + 56), load_le32(p + 108), load_le64(p + 32), load_le64(p + 96),
        <int64_t> load_le64(p + 24), <int64_t> load_le64(p + 80), <int64_t> load_le64(p + 48),
    )
    good = (
        sizes.num_slots <= <uint64_t> length // 8
        and 4 <= sizes.records <= min(length, MOST_RECORD_BYTES + 4)
        and 0 <= sizes.metadata <= MAX_METADATA
        and 0 <= num_keys <= <int64_t> sizes.num_slots
        and 0 <= sizes.num_expired <= (num_keys if timeout_offset else 0)
        and sizes.prefix_kinds <= key_columns <= (MAX_KEY_COLUMNS if sizes.prefix_kinds else 0)
        and 0 <= sizes.prefix_entries <= (num_keys if sizes.prefix_kinds else 0)
        and homes <= sizes.prefix_slots <= (<uint64_t> length // 8 if homes else 0)
    )
    if good:
        sections = sections_of(&sizes)
    if not good or sections.length != length:
        raise CorruptFileError("the header's lengths do not make up the file", path, 32, remedy)
    with nogil:
        good = header_crc(p, sections.index_at) == load_le32(p + 12)
    if not good:
        raise CorruptFileError("the header does not match its checksum", path, 12, remedy)
    if load_le32(p + 68) or load_le32(p + 72) or load_le32(p + 64) > 1 or load_le64(p + 184):
        raise UnsupportedVersionError(
            "an image with an order, column families or flags that this release does not know", path, 64, remedy
        )
    kinds = p[HEADER + sizes.metadata:HEADER + sizes.metadata + sizes.prefix_kinds]
    if timeout_offset % 8 or timeout_offset > MAX_TIMEOUT_OFFSET or max(kinds, default=0) > MAX_KIND:
        raise UnsupportedVersionError("an index that this release does not know", path, 76, remedy)

    image = Image.__new__(Image)
    image.set_indexes((key_columns, kinds) if kinds else None, None)
    image.buffer = buffer
    image.path = path
    image.metadata = p[HEADER:HEADER + sizes.metadata]
    image.num_keys = num_keys
    image.records_size = sizes.records
    image.index_size = sections.prefix_slots_at - sections.index_at
    image.prefix_sizes[0] = sections.prefix_entries_at - sections.prefix_slots_at
    image.prefix_sizes[1] = sections.expiry_at - sections.prefix_entries_at
    image.expiry_size = sections.records_at - sections.expiry_at
    if not buffer_zeroed(&image.checked_buffer, sections.num_blocks):
        raise MemoryError
    image.view = ImageView(
        p + sections.records_at, sizes.records - 4, p + sections.index_at, sizes.num_slots, hash_seed_of(p + 112),
        load_le32(p + 64), 0, p + sections.index_at, sections.index_at, length - sections.index_at,
        p + sections.crcs_at, image.checked_buffer.data, timeout_offset,
        expiry_view(p + sections.expiry_at, sizes.num_expired),
        PrefixView(
            p + sections.prefix_slots_at, sizes.prefix_slots, homes, p + sections.prefix_entries_at,
            sizes.prefix_entries
        ),
    )
    set_typical_size(&image.view, num_keys)
    return image
