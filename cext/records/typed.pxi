# Records of a RocksDB's changelogs (StateStoreChangelog.scala, layouts v2 and v4), after decompression:
#
#     put            0x01 | int32 BE key size | key | int32 BE value size | value
#     delete         0x10 | int32 BE key size | key | int32 BE -1
#     merge          0x11 | as a put; the value is appended to the key's
#     delete range   0x20 | as a put; the keys from `key` to `value`, without the latter
#     end            0x00
#
# With row checksums a key that is deleted has its CRC-32C in front, and the end of a range has the CRC-32C of both keys
# and its own size (int32 LE). Values keep theirs, because the values in SST files have them, too.

cdef enum:
    PUT = 0x01
    DELETE = 0x10
    MERGE = 0x11
    DELETE_RANGE = 0x20

# Types of records in RocksDB (db/dbformat.h), which is what `kinds` tells.
cdef enum:
    KIND_DELETION = 0
    KIND_VALUE = 1
    KIND_MERGE = 2
    KIND_RANGE_DELETION = 15


cdef Fault scan_typed(RecordParser parser, const uint8_t* data, Py_ssize_t size) noexcept nogil:
    """RecordParser.scan for records with types."""
    cdef Py_ssize_t at = 0, value_at, end
    cdef int32_t key_size, value_size
    cdef int32_t* span
    cdef uint8_t kind
    cdef uint32_t crc
    while True:
        parser.consumed = at
        if at == size:
            return OK
        if data[at] == 0:
            parser.consumed = at + 1
            parser.ended = True
            return OK
        if data[at] == PUT:
            kind = KIND_VALUE
        elif data[at] == MERGE:
            kind = KIND_MERGE
        elif data[at] == DELETE:
            kind = KIND_DELETION
        elif data[at] == DELETE_RANGE:
            kind = KIND_RANGE_DELETION
        else:
            return BAD_TYPE
        at += 1
        if at + 4 > size:
            return OK
        key_size = <int32_t> load_be32(data + at)
        if key_size < 0:
            return BAD_KEY_SIZE
        if key_size > parser.max_record_bytes:
            return RECORD_TOO_LARGE
        at += 4
        value_at = at + key_size + 4
        if value_at > size:
            return OK
        value_size = <int32_t> load_be32(data + value_at - 4)
        if (value_size != -1) if kind == KIND_DELETION else (value_size < 0):
            return BAD_VALUE_SIZE
        if value_size > parser.max_record_bytes:
            return RECORD_TOO_LARGE
        end = value_at + max(value_size, 0)
        if end > size:
            return OK
        if parser.row_checksums and kind == KIND_DELETION:
            if key_size < 4:
                return TOO_SHORT_FOR_CHECKSUM
            at += 4
            key_size -= 4
            if crc32c_update(0, data + at, key_size) != load_le32(data + at - 4):
                return BAD_CHECKSUM
        elif parser.row_checksums and kind == KIND_RANGE_DELETION:
            if value_size < 8:
                return TOO_SHORT_FOR_CHECKSUM
            value_at += 8
            value_size -= 8
            crc = crc32c_update(crc32c_update(0, data + at, key_size), data + value_at, value_size)
            if <int32_t> load_le32(data + value_at - 4) != value_size or crc != load_le32(data + value_at - 8):
                return BAD_CHECKSUM
        if parser.count == parser.capacity and not parser.grow():
            return OUT_OF_MEMORY
        span = parser.key_spans + 2 * parser.count
        span[0] = <int32_t> at
        span[1] = key_size
        span = parser.value_spans + 2 * parser.count
        span[0] = <int32_t> value_at
        span[1] = value_size
        parser.record_kinds[parser.count] = kind
        parser.count += 1
        at = end
