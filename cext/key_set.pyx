"""The set of keys that newer files of a chain have already decided, exact to the byte.

A chain is read from its newest delta back to its snapshot, and in each delta the last record of a key is the one that
holds. So a delta is passed twice, to note each key's last record and to keep those, and only the keys of deltas are
held; the snapshot, usually far larger and without duplicates, is streamed past them.

    slot     uint64: hash bits 32..63 | entry index + 1, 0 = free; open addressing, at most half full
    entry    uint64 hash | int64 offset in the arena | int64 record: number of the key's deciding record | int32 size
    arena    the key bytes, one after another
    filter   uint64 words, one for 8 slots, so 16 bits a key or more: two bits that the key's hash names, in one word

The filter is what most keys of a snapshot meet: one word of a table an eighth the size of the slots, which tells that
the key is not there 98 times of 100, and so no branch that the processor could not foresee.
"""

from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcmp, memcpy

import pyarrow as pa

from arrow_binary cimport BinaryValues, binary_values, check_sizes, size_of, value_of
from key_hash cimport HashSeed, hash_key, new_hash_seed
from one_thread cimport begin

from hdfsstore.errors import SizeLimitError

cdef int64_t MOST_KEYS = ((<int64_t> 1) << 32) - 2  # index + 1 takes 32 bits
cdef enum:
    NO_MEMORY = -1
    FULL = -2


cdef struct Entry:
    uint64_t hash
    int64_t offset
    int64_t record
    int32_t size


cdef inline uint64_t filter_bits(uint64_t h) noexcept nogil:
    return (<uint64_t> 1 << (h & 63)) | (<uint64_t> 1 << ((h >> 6) & 63))


cdef no_entry(Py_ssize_t why):
    """The exception for what `entry_of` returned."""
    if why == NO_MEMORY:
        return MemoryError()
    return SizeLimitError(
        f"{MOST_KEYS} keys are the most that the deltas of a chain may hold",
        remedy="Read a batch nearer to its snapshot, or one of a query with more partitions",
    )


cdef inline void move_span(int32_t* spans, Py_ssize_t to, Py_ssize_t at) noexcept nogil:
    spans[2 * to] = spans[2 * at]
    spans[2 * to + 1] = spans[2 * at + 1]


cdef class KeySet:
    """A growing set of keys. Both filters work in place on spans as RecordParser makes them."""

    cdef uint64_t* slots
    cdef uint64_t* filter
    cdef Entry* entries
    cdef uint8_t* arena
    cdef uint64_t mask
    cdef HashSeed seed
    cdef Py_ssize_t count, entry_capacity, settled
    cdef int64_t arena_size, arena_capacity
    cdef bint busy

    def __cinit__(self):
        self.seed = new_hash_seed()

    def __dealloc__(self):
        free(self.slots)
        free(self.filter)
        free(self.entries)
        free(self.arena)

    def __len__(self):
        return self.count

    cdef inline bint has_room(self) noexcept nogil:
        return self.slots != NULL and <uint64_t> self.count * 2 < self.mask

    cdef bint grow_slots(self) noexcept nogil:
        cdef uint64_t size = (self.mask + 1) * 2 if self.slots != NULL else 1024
        cdef uint64_t* slots = <uint64_t*> calloc(size, 8)
        cdef uint64_t* filter = <uint64_t*> calloc(size // 8, 8)
        cdef uint64_t at = 0
        cdef Py_ssize_t i
        if slots == NULL or filter == NULL:
            free(slots)
            free(filter)
            return False
        free(self.slots)
        free(self.filter)
        self.slots = slots
        self.filter = filter
        self.mask = size - 1
        for i in range(self.count):
            at = self.entries[i].hash & self.mask
            while slots[at]:
                at = (at + 1) & self.mask
            slots[at] = (self.entries[i].hash & <uint64_t> 0xFFFFFFFF00000000) | <uint64_t> (i + 1)
            self.mark(self.entries[i].hash)
        return True

    cdef inline void mark(self, uint64_t h) noexcept nogil:
        self.filter[(h >> 32) & (self.mask >> 3)] |= filter_bits(h)

    cdef inline bint may_hold(self, uint64_t h) noexcept nogil:
        return filter_bits(h) & ~self.filter[(h >> 32) & (self.mask >> 3)] == 0

    cdef bint append(self, uint64_t at, uint64_t h, const uint8_t* key, int32_t size) noexcept nogil:
        cdef Py_ssize_t capacity
        cdef int64_t arena_capacity
        cdef void* grown
        if self.count == self.entry_capacity:
            capacity = max(self.entry_capacity * 2, 1024)
            grown = realloc(self.entries, <size_t> capacity * sizeof(Entry))
            if grown == NULL:
                return False
            self.entries = <Entry*> grown
            self.entry_capacity = capacity
        if self.arena_size + size > self.arena_capacity:
            arena_capacity = max(self.arena_capacity * 2, self.arena_size + size, 65536)
            grown = realloc(self.arena, arena_capacity)
            if grown == NULL:
                return False
            self.arena = <uint8_t*> grown
            self.arena_capacity = arena_capacity
        if size:
            memcpy(self.arena + self.arena_size, key, size)
        self.entries[self.count] = Entry(h, self.arena_size, 0, size)
        self.arena_size += size
        self.count += 1
        self.slots[at] = (h & <uint64_t> 0xFFFFFFFF00000000) | <uint64_t> self.count
        self.mark(h)
        return True

    cdef uint64_t find(self, uint64_t h, const uint8_t* key, int32_t size, bint* found) noexcept nogil:
        # The slot that holds the key, or the free one where it belongs.
        cdef uint64_t at = h & self.mask, slot
        cdef Entry* entry
        while True:
            slot = self.slots[at]
            if slot == 0:
                found[0] = False
                return at
            if (slot ^ h) >> 32 == 0:
                entry = self.entries + (<uint32_t> slot - 1)
                if entry.size == size and (size == 0 or memcmp(self.arena + entry.offset, key, size) == 0):
                    found[0] = True
                    return at
            at = (at + 1) & self.mask

    cdef Py_ssize_t entry_of(self, const uint8_t* key, int32_t size) noexcept nogil:
        """Index of the key's entry, a new one (the last) where it has none; NO_MEMORY; FULL."""
        cdef uint64_t h = hash_key(key, size, &self.seed), at
        cdef bint found = False
        if not self.has_room() and not self.grow_slots():
            return NO_MEMORY
        at = self.find(h, key, size, &found)
        if found:
            return <Py_ssize_t> (<uint32_t> self.slots[at]) - 1
        if self.count == MOST_KEYS:
            return FULL
        return self.count - 1 if self.append(at, h, key, size) else NO_MEMORY

    def settle(self):
        """Ends a file: the keys noted so far are decided, and no later `note` or `keep_noted` concerns them."""
        self.settled = self.count

    def note(self, const uint8_t[::1] data not None, keys not None, int64_t first):
        """Notes records of the file under way as the last ones so far of their keys, where no newer file has the key.

        Args:
            data, keys: the records' keys.
            first: number of the first record in its file.
        """
        cdef Py_ssize_t n = keys.size // 8, i, entry = 0
        cdef size_t address = keys.address
        cdef const int32_t* key = <const int32_t*> address
        if n == 0:
            return
        begin(&self.busy)
        with nogil:
            for i in range(n):
                entry = self.entry_of(&data[0] + key[2 * i], key[2 * i + 1])
                if entry < 0:
                    break
                if entry >= self.settled:
                    self.entries[entry].record = first + i
        self.busy = False
        if entry < 0:
            raise no_entry(entry)

    def keep_noted(self, const uint8_t[::1] data not None, keys not None, values not None, int64_t first):
        """Keeps the records that were noted as their keys' last and are no tombstones; arguments as in `note`.

        The kept spans are moved to the front of `keys` and `values`, in their order.

        Returns:
            The number of records kept.
        """
        cdef Py_ssize_t n = keys.size // 8, i, entry, kept = 0
        cdef size_t key_address = keys.address, value_address = values.address
        cdef int32_t* key = <int32_t*> key_address
        cdef int32_t* value = <int32_t*> value_address
        cdef uint64_t at
        cdef bint found = False
        begin(&self.busy)
        if self.count == 0 or n == 0:
            self.busy = False
            return 0
        with nogil:
            for i in range(n):
                if value[2 * i + 1] < 0:
                    continue
                at = self.find(
                    hash_key(&data[0] + key[2 * i], key[2 * i + 1], &self.seed),
                    &data[0] + key[2 * i], key[2 * i + 1], &found,
                )
                entry = <Py_ssize_t> (<uint32_t> self.slots[at]) - 1
                if found and entry >= self.settled and self.entries[entry].record == first + i:
                    move_span(key, kept, i)
                    move_span(value, kept, i)
                    kept += 1
        self.busy = False
        return kept

    def add(self, const uint8_t[::1] data not None, keys not None):
        """Adds keys that are not in the set yet; the first is at position len(set), and so on.

        Raises:
            ValueError: a key is in the set already; those before it have been added.
        """
        cdef Py_ssize_t n = keys.size // 8, i = 0, before, entry = 0
        cdef size_t address = keys.address
        cdef const int32_t* key = <const int32_t*> address
        if n == 0:
            return
        begin(&self.busy)
        with nogil:
            for i in range(n):
                before = self.count
                entry = self.entry_of(&data[0] + key[2 * i], key[2 * i + 1])
                if entry < before:
                    break
            else:
                i = n
        self.busy = False
        if entry < 0:
            raise no_entry(entry)
        if i < n:
            raise ValueError(f"key {i} is in the set already")

    def positions(self, keys not None):
        """Where each key of a pyarrow (large) binary array stands in the set: a pyarrow.Int32Array, null where absent.

        Raises:
            SizeLimitError: a key is 2 GiB or more, or there are more keys in the set than an int32 counts.
        """
        cdef BinaryValues k = binary_values(keys)
        cdef Py_ssize_t i, absent = 0
        cdef int32_t* out
        cdef uint8_t* validity
        cdef uint64_t at = 0
        cdef bint found
        check_sizes(&k, "keys")
        positions = pa.allocate_buffer(k.length * 4)
        out = <int32_t*> <uintptr_t> positions.address
        valid = pa.allocate_buffer((k.length + 7) // 8)
        validity = <uint8_t*> <uintptr_t> valid.address
        begin(&self.busy)
        if self.count > INT32_MAX:
            self.busy = False
            raise SizeLimitError(f"the positions of {self.count} keys are more than an int32 tells")
        with nogil:
            for i in range((k.length + 7) // 8):
                validity[i] = 0
            for i in range(k.length):
                found = False
                if self.count:
                    at = self.find(
                        hash_key(value_of(&k, i), size_of(&k, i), &self.seed),
                        value_of(&k, i), <int32_t> size_of(&k, i), &found,
                    )
                out[i] = 0
                if found:
                    out[i] = <int32_t> (<uint32_t> self.slots[at] - 1)
                    validity[i >> 3] |= <uint8_t> (1 << (i & 7))
                else:
                    absent += 1
        self.busy = False
        return pa.Array.from_buffers(pa.int32(), k.length, [valid, positions], absent)

    def keep_absent(self, const uint8_t[::1] data not None, keys not None, values not None):
        """Keeps the records whose key is not in the set; their spans are moved to the front, in their order.

        Returns:
            The number of records kept.
        """
        cdef Py_ssize_t n = keys.size // 8, i, kept = 0
        cdef size_t key_address = keys.address, value_address = values.address
        cdef int32_t* key = <int32_t*> key_address
        cdef int32_t* value = <int32_t*> value_address
        cdef uint64_t h
        cdef bint found
        begin(&self.busy)
        if self.count == 0 or n == 0:
            self.busy = False
            return n
        with nogil:
            for i in range(n):
                h = hash_key(&data[0] + key[2 * i], key[2 * i + 1], &self.seed)
                found = self.may_hold(h)
                if found:
                    self.find(h, &data[0] + key[2 * i], key[2 * i + 1], &found)
                if not found:
                    move_span(key, kept, i)
                    move_span(value, kept, i)
                    kept += 1
        self.busy = False
        return kept
