# The table of a transaction and of the overlay: for each key the chain of its records, the newest first.

cdef enum:
    MOST_BITS = 32          # a slot holds so many bits of the hash, by which it is placed

cdef int64_t MOST_NODES = ((<int64_t> 1) << 32) - 2  # number + 1 takes 32 bits

cdef struct Node:
    uint64_t at             # offset of the record in its layer << 1 | whether it is a tombstone
    uint32_t before         # the key's node before + 1, 0 = none
    uint32_t layer

cdef struct Table:
    GrowableBuffer slots
    GrowableBuffer nodes
    int bits                # log2 of the number of slots
    int64_t count           # of nodes
    int64_t keys
    bint row_checksums
    bint in_steps           # whether background work fills it
    const uint8_t** layers  # where the records of each layer start


cdef void table_free(Table* table) noexcept nogil:
    buffer_free(&table.slots)
    buffer_free(&table.nodes)


cdef inline int64_t table_bytes(const Table* table) noexcept nogil:
    return table.slots.capacity + table.nodes.capacity


cdef inline Node* node_of(const Table* table, int64_t number) noexcept nogil:
    return <Node*> table.nodes.data + number


cdef inline uint64_t table_home(const Table* table, uint64_t h) noexcept nogil:
    return h >> (64 - table.bits)


cdef inline const uint8_t* node_record(const Table* table, const Node* node) noexcept nogil:
    return table.layers[node.layer] + (node.at >> 1)


cdef inline const uint8_t* node_key(const Table* table, const Node* node, int32_t* size) noexcept nogil:
    cdef const uint8_t* p = node_record(table, node)
    cdef int32_t checksum = 4 if table.row_checksums and node.at & 1 else 0
    size[0] = <int32_t> load_be32(p) - checksum
    return p + 4 + checksum


cdef inline int bits_for(int64_t keys, int bits) noexcept nogil:
    """log2 of the slots that so many keys need; not less than `bits`, which is that of the slots there are."""
    if bits < 6:
        bits = 6
    while 4 * keys > 3 * (<int64_t> 1 << bits):
        bits += 1
    return bits


cdef bint table_reserve(Table* table, int64_t more, Fault* fault) noexcept nogil:
    """Makes room for so many more nodes, each of which may be of a new key."""
    cdef int bits = bits_for(table.keys + more, table.bits)
    if table.count + more > MOST_NODES or bits > MOST_BITS:
        fault.kind = TABLE_FULL
    elif not need_buffer(&table.nodes, (table.count + more) * <int64_t> sizeof(Node), table.in_steps) or (
        bits > table.bits and not table_grow(table, bits)
    ):
        fault.kind = OUT_OF_MEMORY
    return fault.kind == NONE


cdef bint table_grow(Table* table, int bits) noexcept nogil:
    cdef GrowableBuffer grown
    cdef uint64_t i, at, slot, old_slots = (<uint64_t> 1 << table.bits) if table.bits else 0
    cdef uint64_t mask = (<uint64_t> 1 << bits) - 1
    cdef uint64_t* slots
    if not new_buffer(&grown, <int64_t> 8 << bits, table.in_steps):
        return False
    slots = <uint64_t*> grown.data
    for i in range(old_slots):
        slot = (<uint64_t*> table.slots.data)[i]
        if slot:
            at = slot >> (64 - bits)
            while slots[at]:
                at = (at + 1) & mask
            slots[at] = slot
    buffer_free(&table.slots)
    table.slots = grown
    table.bits = bits
    return True


cdef inline int64_t table_find(const Table* table, Lookup* key) noexcept nogil:
    """Returns the newest node of the key, or -1. Searches from the slot `at`, and sets it to the key's place.

    From the end of an earlier search it finds what was added since, as long as the table has not grown.
    """
    cdef uint64_t mask = (<uint64_t> 1 << table.bits) - 1, slot
    cdef const uint64_t* slots = <const uint64_t*> table.slots.data
    cdef const uint8_t* known
    cdef int32_t known_size = 0
    cdef int64_t number
    while True:
        slot = slots[key.at]
        if slot == 0:
            return -1
        if (slot ^ key.hash) >> 32 == 0:
            number = <int64_t> (<uint32_t> slot) - 1
            known = node_key(table, node_of(table, number), &known_size)
            if are_alike(known, known_size, key.key, key.size):
                return number
        key.at = (key.at + 1) & mask


cdef inline void table_add(
    Table* table, uint64_t at, uint64_t h, int64_t before, uint32_t layer, int64_t offset, bint tombstone
) noexcept nogil:
    """Appends a node to the key whose slot is `at` and whose newest node was `before`, -1 for a new key."""
    cdef Node* node = node_of(table, table.count)
    node.at = <uint64_t> offset << 1 | tombstone
    node.before = <uint32_t> (before + 1)
    node.layer = layer
    if before < 0:
        table.keys += 1
    table.count += 1
    (<uint64_t*> table.slots.data)[at] = (h >> 32) << 32 | <uint64_t> table.count


cdef inline void table_start(const Table* table, Lookup* key) noexcept nogil:
    """Goes to the first slot where the key may be, and asks for it."""
    key.at = table_home(table, key.hash)
    buffer_prefetch(table.slots.data + 8 * key.at)


cdef inline void table_prefetch(const Table* table, Lookup* keys, int n) noexcept nogil:
    """Goes on to the first slot that may be the key's, or is free, and asks for the node and the record behind it.

    `offset` becomes the node's number, -1 where the slot is free: the key is not there.
    """
    cdef uint64_t mask = (<uint64_t> 1 << table.bits) - 1, slot
    cdef const uint64_t* slots = <const uint64_t*> table.slots.data
    cdef const uint8_t* record
    cdef int i
    for i in range(n):
        slot = slots[keys[i].at]
        while slot and (slot ^ keys[i].hash) >> 32:
            keys[i].at = (keys[i].at + 1) & mask
            slot = slots[keys[i].at]
        keys[i].offset = <int64_t> (<uint32_t> slot) - 1
        if slot:
            buffer_prefetch(node_of(table, keys[i].offset))
    for i in range(n):
        if keys[i].offset >= 0:
            record = node_record(table, node_of(table, keys[i].offset))
            buffer_prefetch(record)
            buffer_prefetch(record + 64)
