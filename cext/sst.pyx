"""Merges SST files (RocksDB's block-based tables) and the records of changelogs, and builds such files.

    block       contents | byte compression | uint32 LE checksum of both
    contents    LZ4, zstd, zlib: varint32 size once decompressed | body      snappy: body      none: as they are
    data, index, properties and other blocks, once decompressed:
                entries | uint32 LE offset of each restart point | uint32 LE number of them
    entry       varint32 bytes shared with the key before | varint32 other bytes of the key
                | varint32 bytes of the value | other bytes | value          At a restart point nothing is shared.
    index       the key is at or behind all of a block and before the next one; the value is where the block lies:
                varint64 offset | varint64 size without compression and checksum.
                With delta-encoded values an entry has no length of its value. If it shares bytes, the value is
                zigzag varint64 (size - size of the block before), and the block follows that one.
    key         user key | uint64 LE sequence number << 8 | kind          in an index perhaps the user key alone
    kind        0 deletion, 1 value, 2 merge operand, 7 single deletion, 15 range deletion (the value is its end)
    filter      lines of 64 bytes | ff 00 | byte probes, 1 to 31 | 00 00
                A key sets bits of one line: cext/sst/filter.pxi

Keys go up by their bytes; of one user key, sequence numbers go down. hdfsstore/codecs/sst_table.py has the rest of the
file. (RocksDB: table/block_based/block_builder.h, block.cc, table/format.cc, db/dbformat.h)

A merge and a builder work without the GIL. A merge returns to Python where it needs bytes of a file.
"""
cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport INT32_MAX, UINT64_MAX, int32_t, int64_t, uint32_t, uint64_t, uint8_t, uintptr_t
from libc.stdlib cimport calloc, free, qsort, realloc
from libc.string cimport memcmp, memcpy, memset

import pyarrow as pa

from byteorder cimport load_be64, load_le32, load_le64, store_le32, store_le64
from copy_bytes cimport copy_bytes
from crc32c_inline cimport crc32c_update
from growable_buffer cimport GrowableBuffer, buffer_free, buffer_need, buffer_prefetch
from lz4_functions cimport Compress, Decompress, fastest_compress, fastest_decompress
from one_thread cimport begin
from xxh32 cimport xxh32
from xxh64 cimport xxh3, xxh64, xxph3

from hdfsstore.errors import CorruptFileError, SizeLimitError, StateStoreError, UnsupportedProviderError

cdef extern from "Python.h":
    char* PyBytes_AS_STRING(object string) nogil
    Py_ssize_t PyBytes_GET_SIZE(object string) nogil

cdef enum:
    DELETION = 0
    VALUE = 1
    MERGE = 2
    SINGLE_DELETION = 7
    RANGE_DELETION = 15

    TRAILER = 5                 # bytes behind a block's contents
    SLACK = 128                 # bytes behind a buffer that copies of a fixed size may touch
    MAX_RECORD = 1 << 30        # bytes of a key and its value

cdef str REMEDY = "The file is damaged: restore it, or read another version"

cdef enum Fault:
    NO_FAULT
    BAD_CHECKSUM
    BAD_BODY
    BAD_BLOCK
    HASHED_BLOCK
    BAD_ENTRY
    BAD_HANDLE
    BAD_INDEX
    BAD_KEY
    BAD_KIND
    BAD_ORDER
    BAD_RANGE
    BAD_SEQUENCE
    TOO_LARGE
    TOO_MUCH
    NO_MEMORY

cdef dict PROBLEMS = {
    BAD_CHECKSUM: "the checksum of this block does not match its bytes",
    BAD_BODY: "this block does not decompress to its declared size",
    BAD_BLOCK: "this block contradicts itself",
    BAD_ENTRY: "an entry of this block contradicts itself",
    BAD_HANDLE: "an entry of the index names a block that the file does not have",
    BAD_INDEX: "the index is not in order, or its keys are not those of its blocks",
    BAD_KEY: "a key of this block has no sequence number",
    BAD_RANGE: "the first or last key of the file is another one than the MANIFEST of its zip has",
    BAD_ORDER: "the keys of this block are not in order",
    TOO_MUCH: "this block declares more bytes than the file has by its properties",
    BAD_SEQUENCE: "a key of an ingested file has a sequence number of its own",
}

include "sst/block.pxi"
include "sst/entry.pxi"
include "sst/overlay.pxi"
include "sst/sort.pxi"
include "sst/tombstones.pxi"
include "sst/index.pxi"
include "sst/cursor.pxi"
include "sst/queue.pxi"
include "sst/chunk.pxi"
include "sst/plain.pxi"
include "sst/merge.pxi"
include "sst/filter.pxi"
include "sst/builder.pxi"
