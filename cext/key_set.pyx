"""Remember exactly which keys the newer files of a chain have, so that their older records are skipped.

A chain is read from its newest delta back to its snapshot, and in each delta the last record of a key is the one that
holds. Only the keys of deltas are kept; the snapshot, usually far larger and without duplicates, is streamed past them.

    slot     uint64: hash bits 32..63 | place of the entry + 1, 0 = free; at most half full; linear probing from the
             position that the slot's first bits tell, so that the slots stand in the order of their hashes
    entry    int64 number | int32 size of the key | the key, padded to 8 bytes; its place counts in steps of 8 bytes
    holds    a bit for each record of the delta under way: whether it is the last one so far of its key, no newer delta
             has the key, and it is no tombstone
    filter   uint64 words, one for 8 slots, so 16 bits a key or more: two bits that the key's hash names, in one word

The filter is what most keys of a snapshot meet: one word of a table an eighth the size of the slots, which tells that
the key is not there 98 times of 100, and so no branch that the processor could not foresee.

Keys are looked up a group at a time, and what is needed next of each is asked for while the others are worked on:
tables of many keys are far larger than the caches, and to wait for memory once a key takes longer than all else.
"""

from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memcmp, memset

import pyarrow as pa

from growable_buffer cimport GrowableBuffer, buffer_free, buffer_need, buffer_prefetch, buffer_zeroed
from arrow_binary cimport BinaryValues, binary_values, check_sizes, size_of, value_of
from copy_bytes cimport copy_bytes
from key_hash cimport HashSeed, hash_key, new_hash_seed
from one_thread cimport begin

from hdfsstore.errors import SizeLimitError

# KeyTable, the hash table of the set: finds and adds a group of keys at a time.
include "key_set/key_table.pxi"


cdef failure(Fault fault):
    if fault == NO_MEMORY:
        return MemoryError()
    return SizeLimitError(
        f"the keys of a chain's deltas take more than {MOST_BYTES >> 30} GiB",
        remedy="Read a batch nearer to its snapshot, or one of a query with more partitions",
    )


cdef inline void move_span(int32_t* spans, int64_t to, int64_t at) noexcept nogil:
    spans[2 * to] = spans[2 * at]
    spans[2 * to + 1] = spans[2 * at + 1]


cdef inline uint64_t filter_bits(uint64_t h) noexcept nogil:
    return (<uint64_t> 1 << ((h >> 32) & 63)) | (<uint64_t> 1 << ((h >> 38) & 63))


cdef class KeySet:
    """A growing set of keys. What keeps records works in place on spans as RecordParser makes them."""

    cdef KeyTable table
    cdef GrowableBuffer holds, filter
    cdef int64_t settled            # entries from this byte on are of the delta under way
    cdef int64_t filtered           # so many keys are in the filter, which was made
    cdef int filtered_bits          # when this was `table.bits`: slots may grow though no key comes
    cdef readonly int64_t noted     # records of the delta under way
    cdef readonly bint superseded   # whether one of them was preceded by one of its key that an earlier `note` had
    cdef bint busy

    def __cinit__(self):
        self.table.seed = new_hash_seed()

    def __dealloc__(self):
        buffer_free(&self.table.slots)
        buffer_free(&self.table.entries)
        buffer_free(&self.holds)
        buffer_free(&self.filter)

    def __len__(self):
        return self.table.count

    def settle(self):
        """Ends a delta: older records of its keys are skipped, and the next `note` begins another one."""
        begin(&self.busy)
        self.busy = False
        self.settled = self.table.used
        self.noted = 0
        self.superseded = False

    def note(self, const uint8_t[::1] data not None, keys not None, values not None):
        """Notes the next records of the delta under way as the last ones so far of their keys.

        Args:
            data, keys, values: the records.

        Raises:
            SizeLimitError: there are more keys than the set has room for.
        """
        cdef size_t key_address = keys.address, value_address = values.address
        cdef int64_t n = keys.size // 8
        cdef Fault fault
        if n == 0:
            return
        begin(&self.busy)
        with nogil:
            fault = self.note_all(&data[0], <const int32_t*> key_address, <const int32_t*> value_address, n)
        self.busy = False
        if fault != OK:
            raise failure(fault)

    cdef Fault note_all(
        self, const uint8_t* data, const int32_t* keys, const int32_t* values, int64_t count
    ) noexcept nogil:
        cdef Lookup[2][GROUP] groups  # of keys: one that is worked on, and the next, whose slots are on their way
        cdef Lookup* found
        cdef int64_t start = 0, first = self.noted, number, old = (first + 7) // 8, new = (first + count + 7) // 8
        cdef Entry* entry
        cdef Fault fault
        cdef int n, next_n, i, turn = 0
        if not buffer_need(&self.holds, new):
            return NO_MEMORY
        memset(self.holds.data + old, 0, <size_t> (new - old))
        n = hash_group(&self.table, groups[0], data, keys, 0, count, &self.table.slots, self.table.bits)
        while n:
            found = groups[turn]
            start += n
            turn = 1 - turn
            fault = reserve(&self.table, found, n)
            if fault != OK:
                return fault
            approach(&self.table, found, n)
            next_n = hash_group(
                &self.table, groups[turn], data, keys, start, count, &self.table.slots, self.table.bits
            )
            for i in range(n):
                number = first + found[i].index
                entry = find(&self.table, &found[i])
                if entry == NULL:
                    append(&self.table, &found[i], number)
                elif <uint8_t*> entry < self.table.entries.data + self.settled:
                    continue
                else:
                    self.superseded |= entry.number < first
                    self.holds.data[entry.number >> 3] &= <uint8_t> ~(1 << (entry.number & 7))
                    entry.number = number
                if values[2 * found[i].index + 1] >= 0:
                    self.holds.data[number >> 3] |= <uint8_t> (1 << (number & 7))
            n = next_n
        self.noted += count
        return OK

    def keep_noted(self, keys not None, values not None, int64_t first):
        """Keeps those of noted records that hold, as far as is known: the last of their keys that are no tombstones.

        The kept spans are moved to the front of `keys` and `values`, in their order.

        Args:
            keys, values: spans of records that were noted.
            first: number of the first one in its delta.

        Returns:
            The number of records kept.
        """
        cdef size_t key_address = keys.address, value_address = values.address
        cdef int32_t* key = <int32_t*> key_address
        cdef int32_t* value = <int32_t*> value_address
        cdef int64_t n = keys.size // 8, i, kept = 0
        if not 0 <= first <= self.noted - n:
            raise ValueError(f"records {first} to {first + n} were not noted")
        begin(&self.busy)
        with nogil:
            for i in range(n):
                move_span(key, kept, i)
                move_span(value, kept, i)
                kept += (self.holds.data[(first + i) >> 3] >> ((first + i) & 7)) & 1
        self.busy = False
        return kept

    cdef bint make_filter(self) noexcept nogil:
        cdef uint64_t i, slot
        cdef uint64_t* words
        if self.filtered == self.table.count and self.filtered_bits == self.table.bits:
            return True
        buffer_free(&self.filter)
        self.filtered = 0
        if not buffer_zeroed(&self.filter, <int64_t> 1 << self.table.bits):
            return False
        words = <uint64_t*> self.filter.data
        for i in range(<uint64_t> 1 << self.table.bits):
            slot = (<uint64_t*> self.table.slots.data)[i]
            if slot:
                words[slot >> (67 - self.table.bits)] |= filter_bits(slot)
        self.filtered = self.table.count
        self.filtered_bits = self.table.bits
        return True

    def keep_absent(self, const uint8_t[::1] data not None, keys not None, values not None):
        """Keeps the records whose key is not in the set; their spans are moved to the front, in their order.

        Returns:
            The number of records kept.
        """
        cdef size_t key_address = keys.address, value_address = values.address
        cdef int32_t* key = <int32_t*> key_address
        cdef int32_t* value = <int32_t*> value_address
        cdef int64_t n = keys.size // 8, kept = -1
        if n == 0:
            return 0
        begin(&self.busy)
        with nogil:
            if self.table.count == 0:
                kept = n
            elif self.make_filter():
                kept = self.keep_all_absent(&data[0], key, value, n)
        self.busy = False
        if kept < 0:
            raise MemoryError
        return kept

    cdef int64_t keep_all_absent(
        self, const uint8_t* data, int32_t* keys, int32_t* values, int64_t count
    ) noexcept nogil:
        cdef Lookup[GROUP] found
        cdef bint[GROUP] absent
        cdef const uint64_t* words = <const uint64_t*> self.filter.data
        cdef int64_t start = 0, kept = 0
        cdef uint64_t wanted
        cdef int n, i, maybe
        while start < count:
            n = hash_group(&self.table, found, data, keys, start, count, &self.filter, self.table.bits - 3)
            maybe = 0
            for i in range(n):
                wanted = filter_bits(found[i].hash)
                absent[i] = wanted & ~words[found[i].hash >> (67 - self.table.bits)] != 0
                found[maybe] = found[i]
                maybe += not absent[i]
            if maybe:
                ask_for(&self.table, found, maybe)
                approach(&self.table, found, maybe)
                for i in range(maybe):
                    absent[found[i].index - start] = find(&self.table, &found[i]) == NULL
            for i in range(n):
                move_span(keys, kept, start + i)
                move_span(values, kept, start + i)
                kept += absent[i]
            start += n
        return kept

    def add(self, const uint8_t[::1] data not None, keys not None):
        """Adds keys that are not in the set yet; the first is at position len(set), and so on.

        Raises:
            ValueError: a key is in the set already; those before it have been added.
            SizeLimitError: there are more keys than the set has room for.
        """
        cdef size_t address = keys.address
        cdef int64_t n = keys.size // 8, before
        cdef Fault fault
        if n == 0:
            return
        begin(&self.busy)
        before = self.table.count
        with nogil:
            fault = self.add_all(&data[0], <const int32_t*> address, n)
        self.busy = False
        if fault == DUPLICATE:
            raise ValueError(f"key {self.table.count - before} is in the set already")
        if fault != OK:
            raise failure(fault)

    cdef Fault add_all(self, const uint8_t* data, const int32_t* keys, int64_t count) noexcept nogil:
        cdef Lookup[GROUP] found
        cdef int64_t start = 0
        cdef Fault fault
        cdef int n, i
        while start < count:
            n = hash_group(&self.table, found, data, keys, start, count, &self.table.slots, self.table.bits)
            fault = reserve(&self.table, found, n)
            if fault != OK:
                return fault
            approach(&self.table, found, n)
            for i in range(n):
                if find(&self.table, &found[i]) != NULL:
                    return DUPLICATE
                append(&self.table, &found[i], self.table.count)
            start += n
        return OK

    def positions(self, keys not None):
        """Where each key of a pyarrow (large) binary array stands in the set: a pyarrow.Int32Array, null where absent.

        Raises:
            SizeLimitError: a key is 2 GiB or more, or there are more keys in the set than an int32 counts.
        """
        cdef BinaryValues k = binary_values(keys)
        cdef Lookup[GROUP] found
        cdef int64_t start = 0, i, absent = 0
        cdef Entry* entry
        cdef int32_t* out
        cdef uint8_t* validity
        cdef int n, j
        check_sizes(&k, "keys")
        positions = pa.allocate_buffer(k.length * 4)
        out = <int32_t*> <uintptr_t> positions.address
        valid = pa.allocate_buffer((k.length + 7) // 8)
        validity = <uint8_t*> <uintptr_t> valid.address
        begin(&self.busy)
        if self.table.count == 0 or self.table.count > INT32_MAX:
            self.busy = False
            if self.table.count == 0:
                return pa.nulls(k.length, pa.int32())
            raise SizeLimitError(f"the positions of {self.table.count} keys are more than an int32 tells")
        with nogil:
            for i in range((k.length + 7) // 8):
                validity[i] = 0
            while start < k.length:
                n = <int> min(k.length - start, <int64_t> GROUP)
                for j in range(n):
                    found[j].key = value_of(&k, start + j)
                    found[j].size = <int32_t> size_of(&k, start + j)
                    found[j].hash = hash_key(found[j].key, found[j].size, &self.table.seed)
                ask_for(&self.table, found, n)
                approach(&self.table, found, n)
                for j in range(n):
                    i = start + j
                    entry = find(&self.table, &found[j])
                    if entry == NULL:
                        out[i] = 0
                        absent += 1
                    else:
                        out[i] = <int32_t> entry.number
                        validity[i >> 3] |= <uint8_t> (1 << (i & 7))
                start += n
        self.busy = False
        return pa.Array.from_buffers(pa.int32(), k.length, [valid, positions], absent)
