# The table of a KeySet: for each key a number. Keys are looked up a group at a time, and what is needed next of each is
# asked for while the others are worked on: hash_group, reserve where keys may be added, approach, then find for each.

cdef enum:
    GROUP = 32
    LEAST_BITS = 10
    ENTRY_HEADER = 12
    HUGE_PAGE = 2 << 20

cdef int64_t MOST_BYTES = (((<int64_t> 1) << 32) - 2) * 8  # of entries: place + 1 takes 32 bits

cdef enum Fault:
    OK = 0
    NO_MEMORY
    FULL
    DUPLICATE

cdef struct Entry:
    int64_t number
    int32_t size        # the key begins behind it, at ENTRY_HEADER

cdef struct KeyTable:
    GrowableBuffer slots
    GrowableBuffer entries
    int bits            # log2 of the number of slots; 0: there are none
    HashSeed seed
    int64_t count       # of keys
    int64_t used        # bytes of entries

cdef struct Lookup:
    const uint8_t* key
    int32_t size
    int32_t index       # of the record in its chunk
    uint64_t hash
    uint64_t at         # the slot that was come to


cdef inline uint8_t* key_of(Entry* entry) noexcept nogil:
    return <uint8_t*> entry + ENTRY_HEADER


cdef inline bint is_of(Entry* entry, const Lookup* key) noexcept nogil:
    return entry.size == key.size and (key.size == 0 or memcmp(key_of(entry), key.key, <size_t> key.size) == 0)


cdef inline int64_t entry_bytes(int32_t size) noexcept nogil:
    return (ENTRY_HEADER + <int64_t> size + 7) & ~<int64_t> 7


cdef inline Entry* entry_of(const KeyTable* table, uint64_t slot) noexcept nogil:
    return <Entry*> (table.entries.data + 8 * <int64_t> (<uint32_t> slot - 1))


cdef inline uint64_t mask_of(const KeyTable* table) noexcept nogil:
    return (<uint64_t> 1 << table.bits) - 1


cdef bint grow_slots(KeyTable* table, int bits) noexcept nogil:
    """Moves the slots to a larger table. They stand in the order of their hashes there too, but for a wrap."""
    cdef GrowableBuffer grown
    cdef uint64_t* slots
    cdef uint64_t mask = (<uint64_t> 1 << bits) - 1, at, slot, i
    cdef uint64_t old = (<uint64_t> 1 << table.bits) if table.bits else 0
    if not buffer_zeroed(&grown, <int64_t> 8 << bits):
        return False
    slots = <uint64_t*> grown.data
    for i in range(old):
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


cdef inline bint make_room(GrowableBuffer* entries, int64_t size) noexcept nogil:
    """Many entries grow by whole huge pages: one that a buffer ends in is made of small ones, a page fault for each."""
    if size > entries.capacity and size >= 2 * HUGE_PAGE:
        size = (size + (size >> 1) + HUGE_PAGE - 1) & -<int64_t> HUGE_PAGE
    return buffer_need(entries, size)


cdef Fault reserve(KeyTable* table, const Lookup* keys, int n) noexcept nogil:
    """Makes room for a group of keys, each of which may be a new one."""
    cdef int64_t size = table.used
    cdef int bits = max(table.bits, <int> LEAST_BITS), i
    for i in range(n):
        size += entry_bytes(keys[i].size)
    if size > MOST_BYTES:
        return FULL
    while 2 * (table.count + n) > (<int64_t> 1 << bits):
        bits += 1
    if not make_room(&table.entries, size) or (bits > table.bits and not grow_slots(table, bits)):
        return NO_MEMORY
    return OK


cdef inline void ask_for(const KeyTable* table, const Lookup* keys, int n) noexcept nogil:
    """Asks for the first slot where each key may be."""
    cdef int i
    for i in range(n):
        buffer_prefetch(table.slots.data + 8 * (keys[i].hash >> (64 - table.bits)))


cdef inline void approach(const KeyTable* table, Lookup* keys, int n) noexcept nogil:
    """Goes on to the first slot that is free or seems to be the key's, and asks for its entry."""
    cdef const uint64_t* slots = <const uint64_t*> table.slots.data
    cdef uint64_t mask = mask_of(table), slot
    cdef const uint8_t* entry
    cdef int i
    for i in range(n):
        keys[i].at = keys[i].hash >> (64 - table.bits)
        slot = slots[keys[i].at]
        while slot and (slot ^ keys[i].hash) >> 32:
            keys[i].at = (keys[i].at + 1) & mask
            slot = slots[keys[i].at]
        if slot:
            entry = <const uint8_t*> entry_of(table, slot)
            buffer_prefetch(entry)
            buffer_prefetch(entry + ENTRY_HEADER + keys[i].size)


cdef inline Entry* find(const KeyTable* table, Lookup* key) noexcept nogil:
    """The key's entry, or NULL, and then `at` is the free slot where it belongs."""
    cdef const uint64_t* slots = <const uint64_t*> table.slots.data
    cdef uint64_t mask = mask_of(table), slot
    cdef Entry* entry
    while True:
        slot = slots[key.at]
        if slot == 0:
            return NULL
        if (slot ^ key.hash) >> 32 == 0:
            entry = entry_of(table, slot)
            if is_of(entry, key):
                return entry
        key.at = (key.at + 1) & mask


cdef inline void append(KeyTable* table, const Lookup* key, int64_t number) noexcept nogil:
    cdef Entry* entry = <Entry*> (table.entries.data + table.used)
    entry.number = number
    entry.size = key.size
    copy_bytes(key_of(entry), key.key, key.size)
    (<uint64_t*> table.slots.data)[key.at] = (key.hash >> 32) << 32 | <uint64_t> ((table.used >> 3) + 1)
    table.used += entry_bytes(key.size)
    table.count += 1


cdef inline int hash_group(
    const KeyTable* table, Lookup* keys, const uint8_t* data, const int32_t* spans, int64_t first, int64_t count,
    const GrowableBuffer* words, int bits
) noexcept nogil:
    """Hashes the next keys of a chunk, and returns how many; asks for the words that their hashes' first bits tell."""
    cdef int n = <int> min(count - first, <int64_t> GROUP), i
    for i in range(n):
        keys[i].key = data + spans[2 * (first + i)]
        keys[i].size = spans[2 * (first + i) + 1]
        keys[i].index = <int32_t> (first + i)
        keys[i].hash = hash_key(keys[i].key, keys[i].size, &table.seed)
        if words.data != NULL:
            buffer_prefetch(words.data + 8 * (keys[i].hash >> (64 - bits)))
    return n
