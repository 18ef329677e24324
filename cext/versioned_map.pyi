"""Declares the versioned map. Its layouts are described in versioned_map.pyx and the files that it includes."""

from collections.abc import Callable, Iterator, Sequence
from typing import final

import pyarrow as pa
from typing_extensions import Buffer

_Binary = pa.BinaryArray | pa.LargeBinaryArray

# How prefix_scan takes prefixes out of keys: the number of columns of a key, and a byte for each column of its prefix:
# 0 = in its slot, 1 = of variable length, 2 = in 16 reserved bytes (decimal of more than 18 digits, interval).
PrefixPlan = tuple[int, bytes]

@final
class Image:
    """One version's whole state, immutable, in memory or in a mapped file. Threads may share it."""

    metadata: bytes
    num_keys: int
    @property
    def row_checksums(self) -> bool: ...
    @property
    def prefix(self) -> PrefixPlan | None:
        """The plan of `prefix_scan`; None without an index of prefixes."""
    @property
    def timeout_offset(self) -> int | None:
        """The offset of the timeout in a value; None without an index of timeouts."""
    @property
    def nbytes(self) -> int:
        """Bytes of the records and the index, in memory or mapped."""
    @property
    def records(self) -> pa.Buffer:
        """The uncompressed snapshot with its end mark. Bytes of a mapped file are not verified; `readinto` verifies."""
    @staticmethod
    def empty(*, row_checksums: bool, prefix: PrefixPlan | None = None, timeout_offset: int | None = None) -> Image: ...
    @staticmethod
    def open(buffer: pa.Buffer, path: str, *, drop_pages: Callable[[int, int], object] | None = None) -> Image:
        """Returns an image on the bytes of an image file. A block is verified when it is first read.

        Reading a damaged block raises ImageDamagedError. `drop_resident_pages` calls `drop_pages`.

        Raises:
            CorruptFileError: the header is damaged, or gives another length than the file's.
            UnsupportedVersionError: the file has another format version.
        """
    def verify(self, step: Callable[[], object] | None = None) -> None:
        """Verifies all blocks, and calls `step` after each 256 KiB.

        Raises:
            ImageDamagedError: a block is damaged.
        """
    def readinto(self, buffer: Buffer, position: int) -> int:
        """Copies verified bytes of `records` from `position` on. Returns their number, 0 at the end."""
    def drop_resident_pages(self, step: Callable[[], object] | None = None) -> None:
        """Takes the pages of a mapped file out of this process's memory. The next reads map them again.

        The pages stay in the system's page cache. An image in memory is not changed.
        """
    def parts(self, metadata: bytes, step: Callable[[], object] | None = None) -> list[pa.Buffer]:
        """Returns the image file as buffers in their order, with `metadata` (at most 1 MiB) for `open`.

        Verifies the blocks that were not read yet, makes all checksums, and calls `step` after each 256 KiB.
        """

@final
class ImageBuilder:
    """Makes an image of the records of a snapshot. If a key comes twice, its last record counts."""

    def __init__(
        self,
        *,
        row_checksums: bool,
        prefix: PrefixPlan | None = None,
        timeout_offset: int | None = None,
        expected_bytes: int = 0,
    ) -> None:
        """Raises ValueError if `timeout_offset` is not that of a column in a row of at most 64 columns."""
    def append(self, data: Buffer, keys: pa.Buffer, values: pa.Buffer) -> None:
        """Copies records, given as bytes and RecordChunk's spans. ValueError: one is a tombstone."""
    def finish(self) -> Image: ...

@final
class Merger:
    """Merges an image and some layers, step by step, while other threads use them."""

    def __init__(
        self,
        base: Image,
        layers: Sequence[Layer],
        *,
        prefix: PrefixPlan | None = None,
        timeout_offset: int | None = None,
        in_steps: bool = True,
    ) -> None:
        """`layers` are those of VersionedMap.path, oldest first. ValueError: the format of one is not the image's.

        `in_steps=False` is for callers that do not wait between steps: a step may take longer, all of them less.
        """
    def read(self) -> pa.Buffer | None:
        """Merges for at most a millisecond without the GIL, and returns the records that are ready.

        Returns:
            A buffer that is valid until the next call and may be empty. The end mark comes last, then None.

        Raises:
            ImageDamagedError: a block of the image is damaged. Each further call of the merger raises it again.
        """
    def build(self) -> bool:
        """Builds the image for at most a millisecond without the GIL. Returns whether work is left.

        Raises:
            ImageDamagedError: a block of the image is damaged.
        """
    def finish(self) -> Image:
        """Returns the image once `build` has returned False. ValueError: it has not."""
    def free(self) -> bool:
        """Frees a part of the memory of a merger that has ended, and of its image if that is dropped.

        Returns whether memory is left to free.
        """

@final
class Layer:
    """The changes from one version to the next, immutable. LayerBuilder and Transaction.seal make it."""

    num_records: int
    is_whole: bool
    """Whether its puts are the whole state after it. False for a layer that was not made by a transaction."""
    @property
    def nbytes(self) -> int: ...
    def image(self, *, prefix: PrefixPlan | None = None, timeout_offset: int | None = None) -> Image | None:
        """Returns an image that shares these records. None: they are not the whole state, or not one put per key."""
    @property
    def records(self) -> pa.Buffer:
        """The uncompressed delta with its end mark."""

@final
class LayerBuilder:
    """Makes a layer of the records of a delta file."""

    def __init__(self, *, row_checksums: bool) -> None: ...
    def append(self, data: Buffer, keys: pa.Buffer, values: pa.Buffer) -> None:
        """Copies records and tombstones, given as to ImageBuilder.append."""
    def append_layer(self, layer: Layer) -> None:
        """Copies the records of another layer. ValueError: only one of the two has row checksums."""
    def finish(self) -> Layer: ...

@final
class VersionedMap:
    """An image (layer 0) and a tree of layers on top of it. Threads may share it."""

    image: Image
    def __init__(self, image: Image) -> None: ...
    @property
    def nbytes(self) -> int:
        """Bytes of the layers and of the overlay, without the image."""
    def add(self, parent: int, layer: Layer, step: Callable[[], object] | None = None) -> int:
        """Adds a layer on top of layer `parent` and returns its number. The cost grows with the layer's records.

        `step` is called between two chunks of records. If it raises an error, the layer is not added.
        """
    def num_keys(self, layer: int) -> int: ...
    def path(self, layer: int) -> list[Layer]:
        """The layers from the image to this one, the oldest first. Empty for layer 0."""
    def transaction(self, layer: int) -> Transaction: ...

@final
class Transaction:
    """Reads one layer, and makes updates on top of it that only this transaction sees. For one thread.

    Every method that reads raises ImageDamagedError if it meets a damaged block of an image file.
    """

    num_keys: int
    num_puts: int
    num_removes: int
    @property
    def nbytes(self) -> int: ...
    def get(self, key: bytes) -> bytes | None: ...
    def put(self, key: bytes, value: bytes) -> None: ...
    def remove(self, key: bytes) -> bool:
        """Returns whether the key was there. If not, nothing is written."""
    def get_many(self, keys: _Binary) -> _Binary:
        """The value of each key, null if absent. large_binary only if the values have 2 GiB or more together."""
    def put_many(self, keys: _Binary, values: _Binary) -> None:
        """Sets values in their order, or none of them.

        Raises:
            ValueError: there are nulls, or not as many values as keys.
            SizeLimitError: they are more than a layer can hold.
        """
    def remove_many(self, keys: _Binary) -> int:
        """Returns the number of keys that were there."""
    def scan(self, max_bytes: int = 1 << 20) -> Iterator[tuple[_Binary, _Binary]]:
        """Every key and value as they are now, in batches of about max_bytes. Later updates do not show."""
    def prefix_scan(self, prefix: bytes) -> tuple[_Binary, _Binary]:
        """Every key whose first columns are the row `prefix`, and its value. ValueError: there is no prefix plan.

        Keys that are no rows of the plan's number of columns are not found.
        """
    def expired(self, before: int, max_rows: int) -> Iterator[tuple[_Binary, _Binary]]:
        """Every key and value whose timeout is less than `before`, as they are now, in no order.

        Later updates do not show. The cost grows with the number of rows returned, and of indexed records that later
        updates have overwritten. Those are visited once: versions built on this transaction skip them.

        Raises:
            ValueError: the image was made without a timeout offset, or max_rows is less than 1.
        """
    def next_expiry(self) -> int | None:
        """The least timeout of all keys as they are now, None if none is set. ValueError as of `expired`."""
    def seal(self) -> Layer:
        """Returns the updates as a layer for `VersionedMap.add`. Afterwards the transaction can only be read."""
