# Finds the cursor with the first entry.
#
# Heads are numbers of the eight bytes behind those that the keys at hand share. Keys whose heads are equal are compared
# whole.

cdef enum:
    RECORDS_AHEAD = 16          # of an overlay: their keys share what heads leave out
    FEW_LANES = 4               # these are compared by pairs
    MOST_ALIKE = 16             # keys that differ behind their heads only, before heads are made anew

cdef struct Lane:               # of a cursor, for the short way (plain.pxi)
    const uint8_t* at           # the entry at hand, of which only the head is known; NULL: the cursor has read it
    const uint8_t* next         # the entry behind it; NULL: its head is not known
    uint64_t next_head
    const uint8_t* end          # of the entries
    const uint8_t* copy_end     # an entry before it may be copied without a look at its sizes
    uint8_t* key                # the user key before the entry at hand
    int64_t key_size
    int64_t most                # bytes of a user key that there is room for

cdef struct Queue:
    Cursor** order              # those with an entry, in any order; then those that wait for bytes
    uint64_t* heads             # of the entries, in the same order
    Lane* lanes                 # and the lanes of the cursors
    int placed, unplaced
    int best                    # the number of the first entry
    int64_t shared              # bytes that the keys of all entries share
    bint is_stale               # heads are to be made anew
    uint64_t last_head          # of the last key that was taken
    bint has_last_head
    int num_alike


cdef Step place(Queue* queue, const Bounds* bounds) noexcept nogil:
    """Lets cursors that have no entry go on to one. If it says what is missing, the first of these waits for it."""
    cdef Cursor* c
    cdef Step step
    while queue.unplaced:
        c = queue.order[queue.placed]
        step = advance(c, bounds)
        if step == AT_END:
            queue.unplaced -= 1
            queue.order[queue.placed] = queue.order[queue.placed + queue.unplaced]
        elif step == AT_ENTRY:
            queue.unplaced -= 1
            queue.placed += 1
            queue.is_stale = True
        else:
            return step
    if queue.is_stale:
        make_heads(queue)
    return AT_ENTRY


cdef inline void note_alike(Queue* queue) noexcept nogil:
    """Two keys that follow each other have the same head: by now keys may share more."""
    queue.num_alike += 1
    if queue.num_alike == MOST_ALIKE:
        queue.num_alike = 0
        queue.is_stale = True


cdef void make_heads(Queue* queue) noexcept nogil:
    cdef const Cursor* c
    cdef const uint8_t* key = NULL
    cdef const Record* last
    cdef int64_t shared = 0
    cdef int i
    queue.is_stale = False
    queue.has_last_head = False
    if queue.placed:
        key = queue.order[0].key
        shared = queue.order[0].key_size
    for i in range(queue.placed):
        c = queue.order[i]
        shared = shared_bytes(key, shared, c.key, c.key_size)
        # The keys to come share no less, as far as the last of the block is known.
        if c.record != NULL:
            last = (c.record + RECORDS_AHEAD if c.records_end - c.record > RECORDS_AHEAD else c.records_end) - 1
            shared = shared_bytes(key, shared, last.key, last.key_size)
        else:
            shared = shared_bytes(key, shared, c.index_key.data, c.index_key_size)
    queue.shared = shared
    for i in range(queue.placed):
        queue.heads[i] = head_of(queue.order[i].key, queue.order[i].key_size, shared)


cdef inline bint find_best(const uint64_t* heads, int count, int* best) noexcept nogil:
    """Finds the smallest head, the first one of several, and returns whether there are several.

    Compilers make branches of choices, and no processor guesses which run is the next one: masks choose instead.
    """
    cdef int i
    cdef uint64_t least = heads[0], mask, num_least = 0
    best[0] = 0
    for i in range(1, count):
        mask = 0 - <uint64_t> (heads[i] < least)
        least ^= (least ^ heads[i]) & mask
        best[0] ^= (best[0] ^ i) & <int> mask
    for i in range(count):
        num_least += <uint64_t> (heads[i] == least)
    return num_least > 1


cdef inline bint find_best_of_few(const uint64_t* heads, int* best, uint64_t* least) noexcept nogil:
    """Does the same for FEW_LANES heads, by pairs: the second pair waits for nothing."""
    cdef uint64_t of_first = heads[0], of_second = heads[2], mask
    cdef int second
    mask = 0 - <uint64_t> (heads[1] < of_first)
    of_first ^= (of_first ^ heads[1]) & mask
    best[0] = <int> mask & 1
    mask = 0 - <uint64_t> (heads[3] < of_second)
    of_second ^= (of_second ^ heads[3]) & mask
    second = 2 | (<int> mask & 1)
    mask = 0 - <uint64_t> (of_second < of_first)
    least[0] = of_first ^ ((of_first ^ of_second) & mask)
    best[0] ^= (best[0] ^ second) & <int> mask
    return of_first == of_second or (heads[0] == heads[1] == least[0]) or (heads[2] == heads[3] == least[0])


cdef inline void break_ties(Queue* queue) noexcept nogil:
    cdef uint64_t least = queue.heads[queue.best]
    cdef int i, best = queue.best
    for i in range(queue.placed):
        if queue.heads[i] == least and i != best and is_before(queue.order[i], queue.order[best]):
            best = i
    queue.best = best


cdef inline void step_best(Queue* queue, const Bounds* bounds, const uint8_t* last) noexcept nogil:
    """The first entry is done: its cursor goes on. `last` is the key of this entry."""
    cdef Cursor* c = queue.order[queue.best]
    if advance(c, bounds) == AT_ENTRY:
        if c.key_size >= queue.shared and (
            c.shared >= queue.shared or memcmp(c.key, last, queue.shared) == 0
        ):
            queue.heads[queue.best] = head_of(c.key, c.key_size, queue.shared)
        else:
            queue.is_stale = True
        return
    queue.placed -= 1
    queue.order[queue.best] = queue.order[queue.placed]
    queue.heads[queue.best] = queue.heads[queue.placed]
    queue.lanes[queue.best] = queue.lanes[queue.placed]
    queue.lanes[queue.placed].at = NULL
    queue.order[queue.placed] = c
    queue.unplaced = 1
