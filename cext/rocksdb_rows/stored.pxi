# Writes rows as the keys and values that RocksDB stores.


def stored(key_data, keys, bytes version not None, value_data, values, bint checksums):
    """Puts keys and values one after the other into one buffer, with what RocksDB has around them.

    Args:
        key_data, keys, value_data, values: bytes and spans; no value is null.
        version: the bytes in front of each key; empty where keys have theirs already. Values always have the version 0.
        checksums: whether a checksum and a size lie in front of each value.

    Returns:
        (data, spans of keys, spans of values).

    Raises:
        SizeLimitError: together they take 2 GiB or more.
    """
    cdef Input key = input_of(key_data, keys)
    cdef Input value = input_of(value_data, values)
    cdef const uint8_t* begin = version
    cdef int64_t i, at, total = 0, head = len(version), around = 9 if checksums else 1
    cdef int32_t size
    cdef int32_t* key_out
    cdef int32_t* value_out
    cdef uint8_t* out
    if key.count != value.count:
        raise ValueError(f"{key.count} keys and {value.count} values")
    for i in range(key.count):
        if key.spans[2 * i + 1] < 0 or value.spans[2 * i + 1] < 0:
            raise ValueError("a key or value is null")
        total += head + key.spans[2 * i + 1] + around + value.spans[2 * i + 1]
    if total > INT32_MAX:
        raise SizeLimitError(f"{key.count} rows take {total} bytes in RocksDB, and 2 GiB are too many at a time")
    data = pa.allocate_buffer(total)
    key_spans = pa.allocate_buffer(8 * key.count)
    value_spans = pa.allocate_buffer(8 * key.count)
    out = address(data)
    key_out = <int32_t*> address(key_spans)
    value_out = <int32_t*> address(value_spans)
    with nogil:
        at = 0
        for i in range(key.count):
            size = key.spans[2 * i + 1]
            key_out[2 * i] = <int32_t> at
            key_out[2 * i + 1] = <int32_t> (head + size)
            memcpy(out + at, begin, head)
            copy_bytes(out + at + head, key.data + key.spans[2 * i], size)
            at += head + size
            size = value.spans[2 * i + 1]
            value_out[2 * i] = <int32_t> at
            value_out[2 * i + 1] = <int32_t> (around + size)
            at += around
            out[at - 1] = 0
            copy_bytes(out + at, value.data + value.spans[2 * i], size)
            if checksums:
                store_le(out + at - 5, <uint64_t> (size + 1), 4)
                store_le(
                    out + at - 9,
                    crc32c_update(
                        crc32c_update(0, out + key_out[2 * i], key_out[2 * i + 1]), out + at - 1, size + 1
                    ),
                    4,
                )
            at += size
    return data, key_spans, value_spans
