"""Rows by key: which rows have equal key bytes, in the order of the rows.

    slot     uint64: hash bits 32..63 | group + 1, 0 = free; open addressing, at most half full
    group    its first row, and its number of rows

The table holds one slot for a group and no bytes: a key is compared with that of the group's first row.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcmp

import pyarrow as pa

from arrow_binary cimport BinaryValues, binary_values, check_sizes, size_of, value_of
from key_hash cimport HashSeed, hash_key, new_hash_seed

from hdfsstore.errors import SizeLimitError

cdef uint64_t FREE = 0
cdef uint64_t LOW_BITS = <uint64_t> 0xFFFFFFFF
cdef enum:
    FIRST_SLOTS = 1024
    MOST_ROWS = 0x7FFFFFFF


cdef struct Groups:
    uint64_t* slots
    uint64_t mask
    int32_t* firsts             # by group: its first row
    int32_t* counts             # by group: its number of rows
    int32_t count
    int64_t capacity


cdef inline bint is_equal(const BinaryValues* keys, Py_ssize_t a, Py_ssize_t b) noexcept nogil:
    cdef int64_t size = size_of(keys, a)
    return size == size_of(keys, b) and memcmp(value_of(keys, a), value_of(keys, b), <size_t> size) == 0


cdef bint add_group(Groups* groups, int32_t row) noexcept nogil:
    cdef int64_t capacity
    cdef void* grown
    if groups.count == groups.capacity:
        capacity = groups.capacity * 2 if groups.capacity else FIRST_SLOTS // 2
        grown = realloc(groups.firsts, <size_t> capacity * 4)
        if grown == NULL:
            return False
        groups.firsts = <int32_t*> grown
        grown = realloc(groups.counts, <size_t> capacity * 4)
        if grown == NULL:
            return False
        groups.counts = <int32_t*> grown
        groups.capacity = capacity
    groups.firsts[groups.count] = row
    groups.counts[groups.count] = 0
    groups.count += 1
    return True


cdef bint grow_slots(Groups* groups) noexcept nogil:
    """Twice the slots. The hash bits of a slot are the lower ones of the hash, so that they place it in any table."""
    cdef uint64_t size = (groups.mask + 1) * 2 if groups.slots != NULL else FIRST_SLOTS
    cdef uint64_t* slots = <uint64_t*> calloc(size, 8)
    cdef uint64_t i, at
    if slots == NULL:
        return False
    if groups.slots != NULL:
        for i in range(groups.mask + 1):
            if groups.slots[i] != FREE:
                at = (groups.slots[i] >> 32) & (size - 1)
                while slots[at] != FREE:
                    at = (at + 1) & (size - 1)
                slots[at] = groups.slots[i]
        free(groups.slots)
    groups.slots = slots
    groups.mask = size - 1
    return True


cdef bint find_groups(const BinaryValues* keys, const HashSeed* seed, Groups* groups, int32_t* group_of) noexcept nogil:
    """The group of each row, in the order in which their first rows come. False: no memory."""
    cdef Py_ssize_t row
    cdef uint64_t bits, at, slot
    cdef int32_t group = 0
    for row in range(keys.length):
        if groups.slots == NULL or 2 * <uint64_t> groups.count > groups.mask:
            if not grow_slots(groups):
                return False
        bits = hash_key(value_of(keys, row), size_of(keys, row), seed) & LOW_BITS
        at = bits & groups.mask
        while True:
            slot = groups.slots[at]
            if slot == FREE:
                group = groups.count
                if not add_group(groups, <int32_t> row):
                    return False
                groups.slots[at] = (bits << 32) | <uint32_t> (group + 1)
                break
            if slot >> 32 == bits:
                group = <int32_t> ((slot & LOW_BITS) - 1)
                if is_equal(keys, groups.firsts[group], row):
                    break
            at = (at + 1) & groups.mask
        group_of[row] = group
        groups.counts[group] += 1
    return True


cdef bint find_runs(const BinaryValues* keys, Groups* groups) noexcept nogil:
    """A group for each run of rows with equal keys. False: no memory."""
    cdef Py_ssize_t row
    for row in range(keys.length):
        if row == 0 or not is_equal(keys, row - 1, row):
            if not add_group(groups, <int32_t> row):
                return False
        groups.counts[groups.count - 1] += 1
    return True


cdef int32_t* int32s(buffer):
    return <int32_t*> <uintptr_t> buffer.address


def group_rows(keys not None, bint is_sorted):
    """Which rows have equal keys.

    Args:
        keys: a pyarrow (large) binary array, the key of each row; no nulls, fewer than 2**31 rows.
        is_sorted: equal keys are adjacent, so that nothing has to be looked up.

    Raises:
        ValueError: a key is null.
        SizeLimitError: there are 2**31 rows or more, or a key is 2 GiB or more.

    Returns:
        Buffers of int32: the rows, those of one key together and in their order, or None where they lie so already;
        where each key's rows start in that, and a last one for the end; the first row of each key.
    """
    cdef BinaryValues k = binary_values(keys)
    cdef Groups groups = Groups(NULL, 0, NULL, NULL, 0, 0)
    cdef HashSeed seed = new_hash_seed()
    cdef int32_t* group_of
    cdef int32_t* starts
    cdef int32_t* order
    cdef int32_t* firsts
    cdef int32_t at, group
    cdef Py_ssize_t row
    cdef bint good, in_order
    if keys.null_count:
        raise ValueError("a key is null")
    if k.length > MOST_ROWS:
        raise SizeLimitError(f"{k.length} rows are too many to be grouped at a time: at most {MOST_ROWS}")
    check_sizes(&k, "keys")
    rows = pa.allocate_buffer(0 if is_sorted else 4 * k.length)
    group_of = int32s(rows)
    try:
        with nogil:
            if is_sorted:
                good = find_runs(&k, &groups)
            else:
                good = find_groups(&k, &seed, &groups, group_of)
        if not good:
            raise MemoryError
        start_buffer = pa.allocate_buffer(4 * (<int64_t> groups.count + 1))
        first_buffer = pa.allocate_buffer(4 * <int64_t> groups.count)
        starts = int32s(start_buffer)
        firsts = int32s(first_buffer)
        in_order = True
        with nogil:
            at = 0
            for group in range(groups.count):
                starts[group] = at
                firsts[group] = groups.firsts[group]
                in_order = in_order and at == groups.firsts[group]
                at += groups.counts[group]
            starts[groups.count] = at
        # The first row of each group stands where the group starts: then so do all others.
        if is_sorted or in_order:
            return None, start_buffer, first_buffer
        order_buffer = pa.allocate_buffer(4 * k.length)
        order = int32s(order_buffer)
        with nogil:
            for group in range(groups.count):
                groups.counts[group] = starts[group]
            for row in range(k.length):
                group = group_of[row]
                order[groups.counts[group]] = <int32_t> row
                groups.counts[group] += 1
        return order_buffer, start_buffer, first_buffer
    finally:
        free(groups.slots)
        free(groups.firsts)
        free(groups.counts)
