# Guards objects whose loops run without the GIL over memory that another call would move or free.


cdef inline bint begin(bint* busy) except False:
    """Begins a call, which has to set `busy` to False at its end. RuntimeError: another thread is in a call."""
    if busy[0]:
        raise RuntimeError("the object is in use by another thread")
    busy[0] = True
    return True
