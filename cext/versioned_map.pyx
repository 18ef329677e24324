"""State as bytes: an immutable image of one version, layers of updates on top of it, and transactions on top of those.

Every record stands in memory as it does in an uncompressed delta or snapshot file (records.pyx has the layout), and all
tables only say where:

    Image           records buffer: the uncompressed snapshot file, end mark included
                    index: uint64 slots, hash bits 0..23 << 40 | offset of the record + 1, 0 = free; at most 0.8 full;
                    linear probing from position hash * slots >> 64
                    indexes by the timeout in the values and by prefixes of the keys, if they were asked for
                    (timeout_index.pxi, prefix_index.pxi)
    Layer           the uncompressed delta file, end mark included
                    the same index, made when it is first asked for
    Merger          a Table over the records of layers, and which records of an image those make dead (merger.pxi)
    Table           slots: uint64, hash bits 32..63 << 32 | newest node of the key + 1, 0 = free; at most 0.75 full;
                    linear probing from the position that the highest of those bits name, so that it grows in order
                    nodes: uint64 offset of the record in its layer << 1 | is a tombstone, uint32 the key's node
                    before + 1, uint32 layer
    VersionedMap    an Image and a Table (the overlay) over the records of the layers
    Transaction     a Table over its own records, in front of a VersionedMap at one of its layers

A key is looked up in the transaction's table, then in the overlay, then in the image. In the overlay its chain is
walked to the first node of a layer that the reader's layer is built on. Memory is slow, so lookups go in groups, stage
by stage. Each stage prefetches the memory that the next one reads.

The image file, all numbers little-endian:

    0    8   "hdfs.img"
    8    4   format version, 3; the ones before had another hash
    12   4   CRC-32C of all bytes up to the index, these 4 as zeros
    16   8   length of the file
    24   8   number of records in the index by prefixes
    32   8   number of slots
    40   8   number of keys
    48   8   size of the records buffer
    56   8   size of the metadata
    64   4   flags: 1 = records carry row checksums
    68   4   order of the records, 0 = none
    72   4   number of column families, 0 = none
    76   4   offset of the timeout in a value, 0 = there is no index by timeout
    80   8   number of records in the index by timeout
    88   8   number of homes in the index by prefixes
    96   8   number of its slots
    104  4   columns of a key, where there is an index by its prefix, else 0
    108  4   columns of the prefix
    112  72  hash seed
    184  8   zero
    192      metadata, in any form | a byte for each column of the prefix: its kind | zeros up to a multiple of 4
             CRC-32C of each block of 4,096 bytes from the index to the end of file | zeros up to a multiple of 4,096
             index | zeros up to a multiple of 4,096
             index by prefixes: slots | zeros up to a multiple of 4,096 | entries | zeros up to a multiple of 4,096
             index by timeout | zeros up to a multiple of 4,096
             records buffer

A block is verified when it is first touched, so that opening costs the same whatever the size.
"""

import os
import weakref

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.pythread cimport (
    PyThread_acquire_lock, PyThread_allocate_lock, PyThread_free_lock, PyThread_release_lock, PyThread_type_lock,
    WAIT_LOCK,
)
from libc.stdint cimport INT32_MAX, INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memcmp, memcpy, memmove, memset

import pyarrow as pa

from growable_buffer cimport (
    GrowableBuffer, buffer_filled, buffer_free, buffer_free_some, buffer_in_steps, buffer_make_pages, buffer_need,
    buffer_prefetch, buffer_resize, buffer_zeroed,
)
from arrow_binary cimport MOST_BYTES, BinaryValues, binary_values, check_sizes, size_of, too_large, total_size, value_of
from byteorder cimport load_be32, load_le32, load_le64, store_le32, store_le64
from copy_bytes cimport copy_bytes
from crc32c_inline cimport crc32c_update
from key_hash cimport HashSeed, hash_key, hash_place, hash_seed_of, hash_seed_store, new_hash_seed
from one_thread cimport begin
from record_writer cimport write_put, write_size, write_tombstone
from unsafe_layout cimport bitset_bytes, get_bit, padded, set_bit

from hdfsstore.errors import CorruptFileError, ImageDamagedError, SizeLimitError, UnsupportedVersionError

PrefixPlan = tuple[int, bytes]

cdef enum:
    GROUP = 128  # keys whose memory is asked for before the first is read; also how many a lock is held for
    STEP_RECORDS = 1024     # records that a step of background work parses and looks up at most
    STEP_BYTES = 1 << 18    # bytes that it copies at most
    DROPPED_BYTES = 1 << 26      # bytes of a mapping that a step drops at most
    NUM_KEYS_AT = 40        # in the image file
    MOST_EXPECTED = 1 << 28  # bytes of values that get_many makes room for before it has them

cdef enum FaultKind:
    NONE
    OUT_OF_MEMORY
    TABLE_FULL
    TOO_MUCH_TO_INDEX
    DAMAGED_BLOCK
    DAMAGED_RECORD
    DAMAGED_COUNT

cdef struct Fault:
    FaultKind kind
    int64_t offset      # in the image file

cdef enum Where:
    NOWHERE
    IN_OWN
    IN_OVERLAY
    IN_IMAGE

cdef struct Record:
    const uint8_t* key
    const uint8_t* value
    int32_t key_size
    int32_t value_size      # -1 = tombstone
    int64_t size            # of the whole record

cdef struct Lookup:
    const uint8_t* key
    uint64_t hash
    uint64_t at             # the slot of a table: the key's, or where it belongs
    uint64_t own_at         # the same of the transaction's own table
    uint64_t slot           # the next one of the image's index to look at
    uint64_t left           # how many slots of the index have not been looked at
    int64_t offset          # of the record in the image, or number of the node in a table, that may be it; -1 = none
    const uint8_t* record   # the key's record; NULL: there is none
    const uint8_t* value
    int32_t size
    int32_t value_size      # -1 = the key has no value
    Where where


cdef inline void read_record(const uint8_t* p, bint row_checksums, Record* out) noexcept nogil:
    """Takes apart a record of a layer, whose sizes are known to be right."""
    cdef int32_t checksum = 4 if row_checksums else 0
    out.key_size = <int32_t> load_be32(p)
    out.key = p + 4
    out.value_size = <int32_t> load_be32(p + 4 + out.key_size)
    out.value = p + 8 + out.key_size + checksum
    if out.value_size < 0:
        out.size = 8 + <int64_t> out.key_size
        out.key += checksum
        out.key_size -= checksum
    else:
        out.size = 8 + <int64_t> out.key_size + out.value_size
        out.value_size -= checksum


cdef inline bint are_alike(const uint8_t* a, int64_t a_size, const uint8_t* b, int64_t b_size) noexcept nogil:
    return a_size == b_size and (a_size == 0 or memcmp(a, b, a_size) == 0)


cdef inline void check_count(int64_t num_keys, Fault* fault) noexcept nogil:
    if num_keys < 0 and fault.kind == NONE:  # of an image from a file, which anybody may have made up
        fault[0] = Fault(DAMAGED_COUNT, NUM_KEYS_AT)


cdef failure(Fault* fault, str path):
    """The exception for a fault."""
    if fault.kind == OUT_OF_MEMORY:
        return MemoryError()
    if fault.kind == TABLE_FULL:
        return SizeLimitError(
            f"a table has room for {MOST_NODES} updates of {<int64_t> 3 << (MOST_BITS - 2)} keys",
            remedy="Make fewer updates in a batch, or spread the state over more partitions",
        )
    if fault.kind == TOO_MUCH_TO_INDEX:
        return SizeLimitError(
            f"an index has room for {MOST_RECORD_BYTES} bytes of records",
            remedy="Spread the state over more partitions",
        )
    what = "a block of the image does not match its checksum"
    if fault.kind == DAMAGED_RECORD:
        what = "the image's index names no record"
    if fault.kind == DAMAGED_COUNT:
        what = "the image has more keys than its header says"
    return ImageDamagedError(what, path, fault.offset, "Remove the image: it is built anew from the checkpoint's files")


# Growing buffers as pyarrow buffers, buffers that are freed in steps, Arrow columns that grow, checked arguments.
include "versioned_map/buffers.pxi"
# ImageView, an image as a C struct: looks up keys, and verifies the blocks that it touches.
include "versioned_map/image_view.pxi"
# Table, the hash table of transactions, the overlay and mergers: for each key the chain of its records.
include "versioned_map/table.pxi"
# Prefixes, the keys of a table by their prefix, which is the row that Spark's UnsafeProjection writes.
include "versioned_map/prefix.pxi"
# Sort, a radix sort in bounded steps.
include "versioned_map/sort.pxi"
# PrefixBuild and PrefixWalk: make and read an image's index by prefixes.
include "versioned_map/prefix_index.pxi"
# ExpiryBuild and ExpiryIndex: make the index of an image or a layer by the timeout in its values.
include "versioned_map/timeout_index.pxi"
# Reader: finds keys in a transaction, then in the overlay, then in the image.
include "versioned_map/lookup.pxi"
# Class Image: a whole version, immutable.
include "versioned_map/image.pxi"
# Writes image files and opens them.
include "versioned_map/image_file.pxi"
# Indexing: makes the indexes of an image in bounded steps.
include "versioned_map/image_index.pxi"
# Class ImageBuilder: makes an image of the records of a snapshot.
include "versioned_map/image_builder.pxi"
# Classes Layer and LayerBuilder: the changes of one version.
include "versioned_map/layer.pxi"
# Class VersionedMap: an image and the layers on top of it, which threads share, also over a fork.
include "versioned_map/overlay.pxi"
# Class Merger: makes a snapshot's records and a new image of an image and the layers on top of it.
include "versioned_map/merger.pxi"
# Class Transaction: reads at one layer, and collects the updates of a new one.
include "versioned_map/transaction.pxi"
# Class Scan: iterates over all records. prefix_scan finds those of a prefix.
include "versioned_map/scan.pxi"
# ExpiryCursor: walks the index by timeout of an image or a layer, and skips records that are overwritten.
include "versioned_map/timeout_walk.pxi"
# Class Expiry: iterates over the records that have expired. next_expiry finds the least timeout.
include "versioned_map/expired.pxi"
