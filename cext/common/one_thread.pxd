# For objects whose loops run without the GIL over memory that another call of theirs would move or free.


cdef inline bint begin(bint* busy) except False:
    """Begins a call, which sets `busy` to False at its end. RuntimeError: another thread is in one."""
    if busy[0]:
        raise RuntimeError("the object is in use by another thread")
    busy[0] = True
    return True
