# Reading at one layer of a map, with a transaction's own updates in front.

cdef struct Reader:
    const ImageView* image
    const Table* own
    int64_t own_nodes           # only nodes below this one count
    const Table* overlay
    PyThread_type_lock lock     # held while the overlay is read
    const uint8_t* visible      # for each layer up to `layer` whether that one is built on it
    uint32_t layer


cdef inline void decide(const Table* table, int64_t number, Where where, Lookup* key) noexcept nogil:
    cdef Record record
    key.where = where
    key.record = node_record(table, node_of(table, number))
    read_record(key.record, table.row_checksums, &record)
    key.value = record.value
    key.value_size = record.value_size


cdef inline bint is_visible(const Reader* reader, const Node* node) noexcept nogil:
    return node.layer <= reader.layer and reader.visible[node.layer]


cdef inline void hash_keys(const Reader* reader, Lookup* keys, int n, bint image) noexcept nogil:
    """Starts looking for keys, of which `key` and `size` are set, and asks for the slots to begin with."""
    cdef bint own = reader.own.bits > 0
    cdef int i
    image = image and reader.image.num_slots > 0
    for i in range(n):
        keys[i].hash = hash_key(keys[i].key, keys[i].size, &reader.image.seed)
        keys[i].where = NOWHERE
        keys[i].record = NULL
        keys[i].value_size = -1
        if own:
            table_start(reader.own, &keys[i])
        if image:
            image_start(reader.image, &keys[i])


cdef inline void find_in_own(const Reader* reader, Lookup* keys, int n) noexcept nogil:
    cdef int i
    cdef int64_t number
    if reader.own.bits == 0:
        return
    table_prefetch(reader.own, keys, n)
    for i in range(n):
        number = table_find(reader.own, &keys[i]) if keys[i].offset >= 0 else -1
        keys[i].own_at = keys[i].at
        while number >= reader.own_nodes:
            number = <int64_t> node_of(reader.own, number).before - 1
        if number >= 0:
            decide(reader.own, number, IN_OWN, &keys[i])


cdef inline void find_in_overlay(const Reader* reader, Lookup* keys, int n) noexcept nogil:
    cdef int i
    cdef int64_t number
    if reader.layer == 0:
        return
    PyThread_acquire_lock(reader.lock, WAIT_LOCK)
    if reader.overlay.count:
        for i in range(n):
            table_start(reader.overlay, &keys[i])
        table_prefetch(reader.overlay, keys, n)
        for i in range(n):
            if keys[i].offset < 0 or keys[i].where != NOWHERE:
                continue
            number = table_find(reader.overlay, &keys[i])
            while number >= 0 and not is_visible(reader, node_of(reader.overlay, number)):
                number = <int64_t> node_of(reader.overlay, number).before - 1
            if number >= 0:
                decide(reader.overlay, number, IN_OVERLAY, &keys[i])
    PyThread_release_lock(reader.lock)


cdef inline void start_in_image(const ImageView* image, Lookup* keys, int n) noexcept nogil:
    cdef int i
    if image.num_slots:
        for i in range(n):
            image_start(image, &keys[i])


cdef inline bint find_in_image(const ImageView* image, Lookup* keys, int n, Fault* fault) noexcept nogil:
    """Looks in the image for the keys that were found nowhere yet and have been started there."""
    cdef int i
    if image.num_slots == 0:
        return True
    for i in range(n):
        if keys[i].where == NOWHERE:
            if not image_seek(image, &keys[i], fault):
                return False
            image_prefetch(image, &keys[i])
    for i in range(n):
        if keys[i].where == NOWHERE and not image_match(image, &keys[i], fault):
            return False
    return True


cdef void find_decided(const Reader* reader, Lookup* keys, int n) noexcept nogil:
    """Looks for keys in the transaction and in the overlay only."""
    hash_keys(reader, keys, n, False)
    find_in_own(reader, keys, n)
    find_in_overlay(reader, keys, n)


cdef bint find_all(const Reader* reader, Lookup* keys, int n, Fault* fault) noexcept nogil:
    hash_keys(reader, keys, n, True)
    find_in_own(reader, keys, n)
    find_in_overlay(reader, keys, n)
    return find_in_image(reader.image, keys, n, fault)
