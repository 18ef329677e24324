# Indexes a table's keys by their prefix: the row of their first columns, as Spark's UnsafeProjection writes it.
#
#     slots     uint64: hash bits 32..63 of the prefix << 32 | newest entry of the prefix + 1; as in a Table
#     entries   uint64 node of the key in the table, uint32 previous entry of the prefix + 1, uint32 zero

cdef enum:
    MAX_KEY_COLUMNS = 1 << 20
    MAX_KIND = 2            # versioned_map.pyi lists the kinds

cdef struct Plan:
    int64_t key_columns
    int64_t columns         # of the prefix, 0 = there is no plan
    const uint8_t* kinds

cdef struct Entry:
    uint64_t node
    uint32_t before
    uint32_t unused

cdef struct Prefixes:
    GrowableBuffer slots
    GrowableBuffer entries
    int bits
    int64_t count
    int64_t distinct

# Buffers for prefixes that are compared. Each thread needs its own.
cdef struct Scratch:
    GrowableBuffer row
    GrowableBuffer other


cdef void prefixes_free(Prefixes* prefixes) noexcept nogil:
    buffer_free(&prefixes.slots)
    buffer_free(&prefixes.entries)


cdef void scratch_free(Scratch* scratch) noexcept nogil:
    buffer_free(&scratch.row)
    buffer_free(&scratch.other)


cdef int64_t prefixes_bytes(const Prefixes* prefixes) noexcept nogil:
    return prefixes.slots.capacity + prefixes.entries.capacity


cdef inline int64_t prefix_room(const Plan* plan, int64_t size) noexcept nogil:
    """Returns the most bytes that the prefix of a key of this size takes."""
    return padded(size) + 16 * plan.columns


cdef int64_t project(const Plan* plan, const uint8_t* key, int64_t size, GrowableBuffer* row) noexcept nogil:
    """Writes the prefix of a key and returns its size. -1: the key is no row of the plan's columns. -2: no memory."""
    cdef int64_t bits = bitset_bytes(plan.key_columns), fixed = bitset_bytes(plan.columns) + 8 * plan.columns
    cdef int64_t i, used = fixed, most = prefix_room(plan, size), length, room, offset
    cdef uint64_t slot
    cdef uint8_t* out
    if size < bits + 8 * plan.key_columns:
        return -1
    if not buffer_need(row, most):
        return -2
    out = row.data
    memset(out, 0, fixed)
    for i in range(plan.columns):
        slot = load_le64(key + bits + 8 * i)
        if get_bit(key, i):
            set_bit(out, i)
            if plan.kinds[i] < 2:
                continue
        elif plan.kinds[i] == 0:
            store_le64(out + fixed - 8 * (plan.columns - i), slot)
            continue
        offset = <int64_t> (slot >> 32)
        length = <int64_t> (<uint32_t> slot)
        room = padded(length) if plan.kinds[i] == 1 else 16
        if length > room or used + room > most:
            return -1
        memset(out + used, 0, room)
        if not get_bit(key, i):
            if offset + length > size:
                return -1
            memcpy(out + used, key + offset, length)
        store_le64(out + fixed - 8 * (plan.columns - i), <uint64_t> used << 32 | <uint64_t> length)
        used += room
    return used


cdef int64_t prefix_find(
    const Prefixes* prefixes, const Plan* plan, const Table* table, uint64_t h, const uint8_t* row, int64_t size,
    Scratch* scratch, uint64_t* at,
) noexcept nogil:
    """Returns the newest entry of the prefix. -1: none. -2: no memory. Sets `at` to its slot, or where it belongs."""
    cdef uint64_t mask = (<uint64_t> 1 << prefixes.bits) - 1, slot
    cdef int64_t number, other_size
    cdef const uint8_t* other
    cdef int32_t other_key_size = 0
    at[0] = h >> (64 - prefixes.bits)
    while True:
        slot = (<uint64_t*> prefixes.slots.data)[at[0]]
        if slot == 0:
            return -1
        if (slot ^ h) >> 32 == 0:
            number = <int64_t> (<uint32_t> slot) - 1
            other = node_key(
                table, node_of(table, <int64_t> (<Entry*> prefixes.entries.data)[number].node), &other_key_size
            )
            other_size = project(plan, other, other_key_size, &scratch.other)
            if other_size == -2:
                return -2
            if are_alike(scratch.other.data, other_size, row, size):
                return number
        at[0] = (at[0] + 1) & mask


cdef bint prefix_reserve(
    Prefixes* prefixes, const Plan* plan, const Lookup* keys, int n, Scratch* scratch, Fault* fault
) noexcept nogil:
    """Makes room for a group of keys, so that none of their prefix_add fails. Each may have a prefix of its own."""
    cdef Table slots
    cdef int64_t room = 0
    cdef int bits = bits_for(prefixes.distinct + n, prefixes.bits), i
    if plan.columns == 0:
        return True
    for i in range(n):
        room = max(room, prefix_room(plan, keys[i].size))
    if prefixes.count + n > MOST_NODES or bits > MOST_BITS:
        fault.kind = TABLE_FULL
        return False
    if (
        not buffer_need(&prefixes.entries, (prefixes.count + n) * <int64_t> sizeof(Entry))
        or not buffer_need(&scratch.row, room)
        or not buffer_need(&scratch.other, room)
    ):
        fault.kind = OUT_OF_MEMORY
        return False
    if bits == prefixes.bits:
        return True
    slots.slots = prefixes.slots
    slots.bits = prefixes.bits
    if not table_grow(&slots, bits):
        fault.kind = OUT_OF_MEMORY
        return False
    prefixes.slots = slots.slots
    prefixes.bits = slots.bits
    return True


cdef void prefix_add(
    Prefixes* prefixes, const Plan* plan, const Table* table, const HashSeed* seed,
    const uint8_t* key, int32_t key_size, uint64_t number, Scratch* scratch,
) noexcept nogil:
    """Adds a new key under its prefix. There is room for it.

    A key that is no row of the plan's columns has no prefix, and no prefix scan finds it.
    """
    cdef uint64_t h, at = 0
    cdef int64_t size = project(plan, key, key_size, &scratch.row), before
    cdef Entry* entry
    if size < 0:
        return
    h = hash_key(scratch.row.data, size, seed)
    before = prefix_find(prefixes, plan, table, h, scratch.row.data, size, scratch, &at)
    entry = <Entry*> prefixes.entries.data + prefixes.count
    entry.node = number
    entry.before = <uint32_t> (before + 1)
    entry.unused = 0
    prefixes.count += 1
    prefixes.distinct += before < 0
    (<uint64_t*> prefixes.slots.data)[at] = (h >> 32) << 32 | <uint64_t> prefixes.count
