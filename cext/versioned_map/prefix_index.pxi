# Indexes an image's records by the prefixes of their keys: the first columns of a key, as a row (prefix.pxi).
#
# The index uses the highest 44 bits of a prefix's hash. Records that agree in these are a group, mostly of one prefix.
# A reader compares the prefixes themselves, so records of another prefix in a group do no harm.
#
#     slots     uint64, one for each group, in the order of their hashes: bits 20..43 of the hash << 40 | the group's
#               first entry + 1, 0 = free. A group's slot is at position hash * homes >> 64, or after the slots of the
#               groups before it. There are as many slots as that takes, and at least `homes`. Zeros up to a multiple
#               of 4,096
#     entries   5 bytes: offset of the record; zeros up to a multiple of 4,096
#
# A group's entries end where those of the next group begin.

cdef enum:
    NOT_IN_ORDER = 20           # the lowest bits of a hash, which the index ignores
    SPARE = 512                 # slots after the last home for which there is room at first

# An index that is made step by step.
cdef struct PrefixBuild:
    Sort sort                   # of hashes and offsets; at the end its first entries are the groups: hash, first entry
    GrowableBuffer row
    int64_t at                  # the next record to look at
    int64_t written             # entries
    int64_t groups
    int64_t placed              # groups that have their slot
    uint64_t next_slot          # after the last taken one


cdef void prefix_build_free(PrefixBuild* build) noexcept nogil:
    sort_free(&build.sort)
    buffer_free(&build.row)


cdef bint prefix_step(
    PrefixBuild* build, const ImageView* view, const Plan* plan, GrowableBuffer* slots, GrowableBuffer* entries,
    Fault* fault
) noexcept nogil:
    """Does a step of the index of an image's records. False: `slots` and `entries` have it, or there is a fault."""
    cdef uint64_t homes
    if build.at < view.end:
        return prefix_collect(build, view, plan, fault)
    if entries.data == NULL:
        if sort_step(&build.sort, fault) or fault.kind != NONE:
            return fault.kind == NONE
        if not new_buffer(entries, whole_blocks(ENTRY * build.sort.count), build.sort.in_steps):
            fault.kind = OUT_OF_MEMORY
        return fault.kind == NONE
    if build.written < build.sort.count:
        prefix_write(build, entries.data)
        return True
    homes = slots_for(build.groups)
    if slots.data == NULL:
        if not new_buffer(
            slots, whole_blocks(8 * (<int64_t> homes + (SPARE if homes else 0))), build.sort.in_steps
        ):
            fault.kind = OUT_OF_MEMORY
        return fault.kind == NONE
    if build.placed < build.groups:
        return prefix_place(build, homes, slots, fault)
    if not buffer_resize(slots, whole_blocks(8 * <int64_t> max(homes, build.next_slot))):
        fault.kind = OUT_OF_MEMORY
    return False


cdef inline PrefixView prefix_view(
    const PrefixBuild* build, const uint8_t* slots, const uint8_t* entries
) noexcept nogil:
    cdef uint64_t homes = slots_for(build.groups)
    return PrefixView(slots, max(homes, build.next_slot), homes, entries, build.sort.count)


cdef bint prefix_collect(PrefixBuild* build, const ImageView* view, const Plan* plan, Fault* fault) noexcept nogil:
    """Hashes the prefixes of some records. A key that is no row of the plan's columns has no prefix."""
    cdef Record record
    cdef int64_t size
    cdef int n = 0
    while n < STEP_RECORDS and build.at < view.end:
        buffer_prefetch(view.records + build.at + AHEAD)
        read_record(view.records + build.at, view.row_checksums, &record)
        size = project(plan, record.key, record.key_size, &build.row)
        if size == -2:
            fault.kind = OUT_OF_MEMORY
            return False
        if size >= 0 and not sort_add(
            &build.sort, hash_key(build.row.data, size, &view.seed) >> NOT_IN_ORDER, <uint64_t> build.at, fault
        ):
            return False
        build.at += record.size
        n += 1
    return True


cdef void prefix_write(PrefixBuild* build, uint8_t* entries) noexcept nogil:
    """Writes some entries. Their groups overwrite the start of the sorted entries, which is already written."""
    cdef SortEntry* sorted_ = <SortEntry*> build.sort.entries.data
    cdef int64_t i, stop = min(build.written + STEP_ENTRIES, build.sort.count)
    cdef uint64_t hashed
    for i in range(build.written, stop):
        hashed = sorted_[i].value
        store_entry(entries + ENTRY * i, sorted_[i].at)
        if build.groups == 0 or sorted_[build.groups - 1].value != hashed:
            sorted_[build.groups] = SortEntry(hashed, <uint64_t> i)
            build.groups += 1
    build.written = stop


cdef bint prefix_place(PrefixBuild* build, uint64_t homes, GrowableBuffer* slots, Fault* fault) noexcept nogil:
    """Writes the slots of some groups."""
    cdef const SortEntry* groups = <const SortEntry*> build.sort.entries.data
    cdef int64_t i, stop = min(build.placed + STEP_ENTRIES, build.groups), before = slots.capacity
    cdef uint64_t slot
    for i in range(build.placed, stop):
        slot = max(hash_place(groups[i].value << NOT_IN_ORDER, homes), build.next_slot)
        if 8 * <int64_t> (slot + 1) > slots.capacity:
            before = slots.capacity
            if not buffer_resize(slots, whole_blocks(8 * (<int64_t> slot + SPARE))):
                fault.kind = OUT_OF_MEMORY
                return False
            memset(slots.data + before, 0, slots.capacity - before)
        store_le64(slots.data + 8 * slot, prefix_tag(groups[i].value) << OFFSET_BITS | (groups[i].at + 1))
        build.next_slot = slot + 1
    build.placed = stop
    return True


cdef inline uint64_t prefix_tag(uint64_t hashed) noexcept nogil:
    return hashed & 0xFFFFFF


# A position in the entries of a prefix.
cdef struct PrefixWalk:
    uint64_t hashed
    uint64_t slot               # the next one to look at
    int64_t entry               # the next one of the current group
    int64_t end


cdef inline PrefixWalk prefix_walk(const PrefixView* index, uint64_t h) noexcept nogil:
    cdef uint64_t hashed = h >> NOT_IN_ORDER
    return PrefixWalk(hashed, hash_place(hashed << NOT_IN_ORDER, index.homes), 0, 0)


cdef bint prefix_next(const ImageView* view, PrefixWalk* walk, int64_t* offset, Fault* fault) noexcept nogil:
    """Finds the offset of the next record that may have the prefix, -1 after the last one. False: a fault."""
    cdef const PrefixView* index = &view.by_prefix
    cdef const uint8_t* p
    offset[0] = -1
    while walk.entry == walk.end:
        if walk.slot >= index.num_slots or not next_group(view, walk, fault):
            return fault.kind == NONE
    p = index.entries + ENTRY * walk.entry
    walk.entry += 1
    if not touch(view, p, ENTRY, fault):
        return False
    offset[0] = load_entry(p)
    return True


cdef bint next_group(const ImageView* view, PrefixWalk* walk, Fault* fault) noexcept nogil:
    """Moves past the next slot, and enters its group if the tag is the prefix's. False: it is free, or a fault."""
    cdef const PrefixView* index = &view.by_prefix
    cdef const uint8_t* p = index.slots + 8 * walk.slot
    cdef uint64_t slot, next_
    if not touch(view, p, 8, fault):
        return False
    slot = load_le64(p)
    if slot == 0:
        return False
    walk.slot += 1
    if slot >> OFFSET_BITS != prefix_tag(walk.hashed):
        return True
    walk.entry = first_entry(slot)
    walk.end = index.count
    next_ = walk.slot
    while next_ < index.num_slots:
        if not touch(view, index.slots + 8 * next_, 8, fault):
            return False
        slot = load_le64(index.slots + 8 * next_)
        if slot:
            walk.end = first_entry(slot)
            break
        next_ += 1
    if not 0 <= walk.entry < walk.end <= index.count:
        return bad_record(view, p - view.records, fault)
    return True


cdef inline int64_t first_entry(uint64_t slot) noexcept nogil:
    return <int64_t> (slot & ((<uint64_t> 1 << OFFSET_BITS) - 1)) - 1
