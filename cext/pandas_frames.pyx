"""Frames cut out of the blocks of a large one, and blocks taken out of frames, where pandas' blocks are known.

In Cython, as this is done between two calls of the user's function: Python code of some steps, which that function has
driven out of the processor's caches, takes twice as long there as in a loop of its own.
"""

import weakref

import numpy as np
import pandas as pd
from pandas.core.flags import Flags
from pandas.core.internals import BlockManager
from pandas.core.internals.blocks import DatetimeLikeBlock

cdef type Frame = pd.DataFrame
cdef type Labels = pd.Index
cdef type Numbers = pd.RangeIndex
cdef type FrameFlags = Flags
cdef object new = object.__new__
cdef object new_manager = BlockManager
cdef object new_reference = weakref.ref
cdef slice ALL = slice(None)


cdef class FrameCutter:
    # (class, columns, values) of each block of arrays; the same, and what wraps the values, of times; of other kinds.
    cdef list arrays, times, others
    cdef object labels, blknos, blklocs

    def __init__(self, frame):
        self.arrays, self.times, self.others = [], [], []
        for block in frame._mgr.blocks:
            values, kind = block.values, type(block)
            if isinstance(values, np.ndarray):
                self.arrays.append((kind, block._mgr_locs, values))
            elif isinstance(block, DatetimeLikeBlock):
                # Slicing pandas' arrays of times costs four times what slicing the arrays beneath costs.
                self.times.append((kind, block._mgr_locs, values._ndarray, values._from_backing_data))
            else:
                self.others.append((kind, block._mgr_locs, values))
        self.labels = frame.columns
        self.labels.is_unique, self.labels._engine  # found out once, for the views of it
        whole = self.manager(0, len(frame))
        self.blknos, self.blklocs = whole.blknos, whole.blklocs

    def __call__(self, Py_ssize_t start, Py_ssize_t end):
        manager = self.manager(start, end)
        manager._blknos, manager._blklocs = self.blknos.copy(), self.blklocs.copy()
        return frame_of(manager)

    cdef manager(self, Py_ssize_t start, Py_ssize_t end):
        cdef slice rows = slice(start, end)
        cdef tuple in_two = (ALL, rows)
        cdef list blocks = []
        for kind, columns, values in self.arrays:
            blocks.append(kind(values[in_two], columns, 2))
        for kind, columns, values, wrapped in self.times:
            blocks.append(kind(wrapped(values[in_two]), columns, 2))
        for kind, columns, values in self.others:
            blocks.append(kind(values[rows], columns, 2))
        # Views of the labels, as some change them in place: frame.columns.name = ...
        return new_manager(tuple(blocks), [view_of(self.labels), first_numbers(end - start)], False)


cdef view_of(labels):
    """labels._view(), but for an array of its own, as some write to it: frame.columns.values[0] = ..."""
    view = new(Labels)
    view._data = labels._data.copy()
    view._name = labels._name
    view._cache = labels._cache
    view._references = labels._references
    view._id = object()
    return view


cdef first_numbers(Py_ssize_t count):
    """pandas.RangeIndex(count)"""
    numbers = new(Numbers)
    numbers._range = range(count)
    numbers._name = None
    numbers._cache = {}
    numbers._references = None
    numbers._id = object()
    return numbers


cdef frame_of(manager):
    """pandas.DataFrame._from_mgr(manager, manager.axes)"""
    frame = new(Frame)
    flags = new(FrameFlags)
    flags._allows_duplicate_labels = True
    flags._obj = new_reference(frame)
    cdef dict fields = frame.__dict__
    fields["_is_copy"] = None
    fields["_mgr"] = manager
    fields["_item_cache"] = {}
    fields["_attrs"] = {}
    fields["_flags"] = flags
    return frame


cdef class FrameRun:
    cdef list labels
    # By block.
    cdef list dtypes, places, positions, arrays

    def __init__(self, frame):
        blocks = frame._mgr.blocks
        self.labels = labels_of(frame._mgr.axes[0])
        self.dtypes = [block.values.dtype for block in blocks]
        self.places = [block._mgr_locs.indexer for block in blocks]
        self.positions = [block._mgr_locs.as_array.tolist() for block in blocks]
        self.arrays = [[block.values] for block in blocks]

    def add(self, frame):
        cdef Py_ssize_t i, count = len(self.dtypes), num_rows = 0
        cdef list arrays = []
        if not isinstance(frame, Frame):
            return -1
        manager = frame._mgr
        cdef tuple blocks = manager.blocks
        if len(blocks) != count or labels_of(manager.axes[0]) != self.labels:
            return -1
        for i in range(count):
            block = blocks[i]
            values = block.values
            dtype = values.dtype
            if dtype is not self.dtypes[i] and dtype != self.dtypes[i]:
                return -1
            if not is_same_place(block._mgr_locs.indexer, self.places[i]):
                return -1
            arrays.append(values)
            num_rows = values.shape[values.ndim - 1]
        if num_rows:
            for i in range(count):
                (<list> self.arrays[i]).append(arrays[i])
        return num_rows

    def take(self):
        taken = list(zip(self.positions, self.arrays)) if self.arrays[0] else []
        self.arrays = [[] for _ in self.dtypes]
        return taken


cdef list labels_of(labels):
    return labels._data.tolist() if type(labels) is Labels else labels.tolist()


cdef bint is_same_place(a, b) except -1:
    """Whether two slices or arrays say the same columns."""
    if isinstance(a, slice) or isinstance(b, slice):
        return isinstance(a, slice) and isinstance(b, slice) and a == b
    return np.array_equal(a, b)
