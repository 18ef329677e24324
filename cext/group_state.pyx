"""Keeps the state of a key while the user's function has it, and collects the changes.

It is in Cython because it runs between steps of that function, which evict everything else from the processor's caches.
"""

import datetime
import decimal

PLAIN = frozenset(
    (
        *(type(None), bool, int, float, str, bytes, bytearray, list, dict, tuple, decimal.Decimal),
        *(datetime.date, datetime.datetime, datetime.timedelta),
    )
)
cdef frozenset plain_types = PLAIN
cdef object no_timeout = -1


cdef class ColumnsState:
    cdef public object _value
    cdef public bint _defined, _updated, _removed
    cdef public object _timeout_timestamp

    def __init__(self, value):
        self._value = value
        self._defined = value is not None
        self._timeout_timestamp = no_timeout

    @property
    def exists(self):
        return self._defined

    @property
    def get(self):
        return tuple(self._value) if self._defined else super(ColumnsState, self).get

    @property
    def getOption(self):
        return tuple(self._value) if self._defined else None

    def update(self, newValue):
        if newValue is None:
            super(ColumnsState, self).update(newValue)  # raises
        cdef tuple values = tuple(newValue)
        for value in values:
            if type(value) not in plain_types:
                self.set(tuple(map(self._plain, values)))
                return
        self.set(values)

    def remove(self):
        self._defined = False
        self._updated = False
        self._removed = True

    cdef void set(self, value):
        self._value = value
        self._defined = True
        self._updated = True
        self._removed = False


cdef class ValueState(ColumnsState):
    @property
    def get(self):
        return self._value if self._defined else super(ColumnsState, self).get

    @property
    def getOption(self):
        return self._value if self._defined else None

    def update(self, newValue):
        if newValue is None:
            super(ColumnsState, self).update(newValue)  # raises
        self._check(newValue)
        self.set(newValue)


cdef class Notes:
    cdef readonly list removed, put, is_there, columns, timeouts
    cdef object accept
    cdef bint is_plain

    def __init__(self, Py_ssize_t width, accept, bint is_plain):
        self.removed, self.put, self.is_there, self.timeouts = [], [], [], []
        self.columns = [[] for _ in range(width)]
        self.accept = accept
        self.is_plain = is_plain

    def keep(self, index, ColumnsState state):
        timeout = state._timeout_timestamp
        if state._updated or timeout is not no_timeout and timeout != no_timeout:
            self.put_columns(index, state)
            self.put.append(index)
            self.is_there.append(state._defined)
            self.timeouts.append(timeout)
        elif state._removed:
            self.removed.append(index)

    cdef put_columns(self, index, ColumnsState state):
        cdef Py_ssize_t i, width = len(self.columns)
        cdef tuple values
        if not state._defined:
            for column in self.columns:
                column.append(None)
            return
        value = state._value
        if self.is_plain and type(value) is tuple and len(<tuple> value) == width:
            values = value
        else:
            values = self.accept(index, value)
        for i in range(width):
            (<list> self.columns[i]).append(values[i])

    def clear(self):
        for notes in (self.removed, self.put, self.is_there, self.timeouts, *self.columns):
            notes.clear()
