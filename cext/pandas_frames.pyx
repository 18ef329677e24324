"""Cuts frames out of the blocks of a large one, and takes blocks out of frames, for pandas releases with known blocks.

It is in Cython because it runs between two calls of the user's function, which evicts everything else from the
processor's caches. So it has to be little code. pandas' constructors that only call others are skipped, and each part
of a frame is made for many frames at a time.
"""

from cpython.object cimport PyObject_GenericGetAttr, PyObject_GenericSetAttr
from cpython.weakref cimport PyWeakref_NewRef

import numpy as np
import pandas as pd
from pandas.core.flags import Flags
from pandas.core.internals import BlockManager
from pandas.core.internals.blocks import DatetimeLikeBlock

cdef extern from "Python.h":
    ctypedef struct PyTypeObject:
        object (*tp_new)(PyTypeObject*, object, void*)

cdef type Frame = pd.DataFrame
cdef type Labels = pd.Index
cdef type Numbers = pd.RangeIndex
cdef type Array = np.ndarray
cdef type FrameFlags = Flags
cdef type Manager = BlockManager
cdef type Anything = object
cdef slice ALL = slice(None)


cdef class FrameCutter:
    # Tuples (class, columns, values) of blocks. Those of times also have the function that wraps the values.
    cdef list arrays, times, others
    cdef object labels
    cdef type engine  # of the labels
    # Arrays of one row.
    cdef object names, blknos, blklocs
    cdef dict ranges

    def __init__(self, frame):
        self.arrays, self.times, self.others = [], [], []
        for block in frame._mgr.blocks:
            values, kind = block.values, type(block)
            if isinstance(values, np.ndarray):
                self.arrays.append((kind, block._mgr_locs, values))
            elif isinstance(block, DatetimeLikeBlock):
                # Slicing pandas' arrays of times costs four times as much as slicing the arrays in them.
                self.times.append((kind, block._mgr_locs, values._ndarray, values._from_backing_data))
            else:
                self.others.append((kind, block._mgr_locs, values))
        self.labels = frame.columns
        self.engine = type(self.labels._engine)
        self.names = self.labels._data.reshape(1, -1)
        self.ranges = {}
        manager = self.managers([slice(0, len(frame))], [len(frame)])[0]
        self.blknos, self.blklocs = manager.blknos.reshape(1, -1), manager.blklocs.reshape(1, -1)

    def __call__(self, list starts, list ends):
        cdef Py_ssize_t i, count = len(starts)
        cdef list rows = [], lengths = [], managers
        for i in range(count):
            rows.append(slice(starts[i], ends[i]))
            lengths.append(ends[i] - starts[i])
        managers = self.managers(rows, lengths)
        cdef list blknos = list(self.blknos.repeat(count, 0)), blklocs = list(self.blklocs.repeat(count, 0))
        for i in range(count):
            manager = managers[i]
            manager._blknos, manager._blklocs = blknos[i], blklocs[i]
        return [frame_of(manager) for manager in managers]

    cdef list managers(self, list rows, list lengths):
        cdef list in_two = [(ALL, its_rows) for its_rows in rows]
        cdef list blocks = []
        for kind, columns, values in self.arrays:
            blocks.append(blocks_of(kind, [values[part] for part in in_two], columns))
        for kind, columns, values, wrapped in self.times:
            blocks.append(blocks_of(kind, [wrapped(values[part]) for part in in_two], columns))
        for kind, columns, values in self.others:
            blocks.append(blocks_of(kind, [values[part] for part in rows], columns))
        cdef list of_frames = list(zip(*blocks))
        # Each frame has its own labels: functions change them in place (frame.columns.name = ..., .values[0] = ...).
        cdef list labels = [view_of(self.labels, names, self.engine) for names in self.names.repeat(len(rows), 0)]
        cdef list indexes = [self.first_numbers(length) for length in lengths]
        cdef list managers = []
        cdef Py_ssize_t i
        for i in range(len(rows)):
            managers.append(new(Manager, (of_frames[i], [labels[i], indexes[i]], False)))
        return managers

    cdef first_numbers(self, length):
        """Makes pandas.RangeIndex(length)."""
        found = self.ranges.get(length)
        if found is None:
            found = self.ranges[length] = range(length)
        numbers = new_object(Numbers)
        numbers._range = found
        numbers._name = None
        numbers._cache = {}
        numbers._references = None
        numbers._id = new_object(Anything)
        return numbers


cdef list blocks_of(type kind, list arrays, columns):
    return [new(kind, (values, columns, 2)) for values in arrays]


cdef view_of(labels, names, type engine):
    """Does labels._view() with another array of the same labels, and with an engine of its own.

    The function may write over its labels, so a shared engine could find old ones. This engine reads the labels at the
    first look-up. It is set here because pandas takes 4 us to choose one among those of all kinds of Index.
    """
    view = new_object(Labels)
    view._data = names
    view._name = labels._name
    view._cache = {"_engine": engine(names)}
    view._references = labels._references
    view._id = new_object(Anything)
    return view


cdef frame_of(manager):
    """Does pandas.DataFrame._from_mgr(manager, manager.axes)."""
    frame = new_object(Frame)
    flags = new_object(FrameFlags)
    flags._allows_duplicate_labels = True
    flags._obj = PyWeakref_NewRef(frame, None)
    # Sets fields as pandas does, not through frame.__dict__: Python reads a frame that has made a dict more slowly.
    PyObject_GenericSetAttr(frame, "_is_copy", None)
    PyObject_GenericSetAttr(frame, "_mgr", manager)
    PyObject_GenericSetAttr(frame, "_item_cache", {})
    PyObject_GenericSetAttr(frame, "_attrs", {})
    PyObject_GenericSetAttr(frame, "_flags", flags)
    return frame


cdef inline new(type kind, tuple arguments):
    """Calls kind.__new__(kind, *arguments), for classes whose __init__ then does nothing."""
    return (<PyTypeObject*> kind).tp_new(<PyTypeObject*> kind, arguments, NULL)


cdef inline new_object(type kind):
    """Calls object.__new__(kind)."""
    return (<PyTypeObject*> Anything).tp_new(<PyTypeObject*> kind, (), NULL)


cdef class Each:
    cdef object lists
    cdef list left

    def __init__(self, lists):
        self.lists, self.left = lists, []

    def __iter__(self):
        return self

    def __next__(self):
        if not self.left:
            self.left = next(self.lists)
            self.left.reverse()
        return iter([self.left.pop()])


cdef class FrameRun:
    cdef list labels
    # One item for each block.
    cdef list dtypes, places, positions, arrays

    def __init__(self, frame):
        blocks = frame._mgr.blocks
        self.labels = labels_of(frame._mgr.axes[0])
        self.dtypes = [block.values.dtype for block in blocks]
        self.places = [block._mgr_locs for block in blocks]
        self.positions = [place.as_array.tolist() for place in self.places]
        self.arrays = [[block.values] for block in blocks]

    cpdef Py_ssize_t add(self, frame) except -2:
        cdef Py_ssize_t i, count = len(self.dtypes), size, num_rows = 0
        cdef list arrays = [], positions
        if not isinstance(frame, Frame):
            return -1
        manager = PyObject_GenericGetAttr(frame, "_mgr")
        cdef tuple blocks = manager.blocks
        cdef list axes = manager.axes
        if len(blocks) != count or labels_of(axes[0]) != self.labels:
            return -1
        for i in range(count):
            block = blocks[i]
            values = block.values
            dtype = values.dtype
            if dtype is not self.dtypes[i] and dtype != self.dtypes[i]:
                return -1
            place, positions = block._mgr_locs, self.positions[i]
            if place is not self.places[i] and place.as_array.tolist() != positions:
                return -1
            arrays.append(values)
            size = values.size if type(values) is Array else len(axes[1]) * len(positions)
            num_rows = size // len(positions)
        if num_rows:
            for i in range(count):
                (<list> self.arrays[i]).append(arrays[i])
        return num_rows

    def take(self):
        taken = list(zip(self.positions, self.arrays)) if self.arrays[0] else []
        self.arrays = [[] for _ in self.dtypes]
        return taken


cdef class FrameTaker:
    cdef public Py_ssize_t num_rows
    cdef public FrameRun _run
    cdef public list _keys, _lengths
    cdef Py_ssize_t max_unjoined

    def __init__(self, Py_ssize_t max_unjoined):
        self.max_unjoined = max_unjoined

    def add(self, key, frame):
        cdef Py_ssize_t num_rows = -1 if self._run is None else self._run.add(frame)
        if num_rows < 0:
            num_rows = self._add_other(frame)
        if num_rows:
            self._keys.append(key)
            self._lengths.append(num_rows)
            self.num_rows += num_rows
            if not len(self._keys) % self.max_unjoined:
                self._join()


cdef list labels_of(labels):
    return labels._data.tolist() if type(labels) is Labels else labels.tolist()
