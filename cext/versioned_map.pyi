"""The layouts, and docstrings that are missing here, are in versioned_map.pyx and its parts."""

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
        """The plan of `prefix_scan`; None where there is no index by prefixes."""
    @property
    def timeout_offset(self) -> int | None:
        """The offset of the timeout in a value; None where there is no index by timeout."""
    @property
    def nbytes(self) -> int:
        """Bytes of the records and the index, in memory or mapped."""
    @property
    def records(self) -> pa.Buffer:
        """The uncompressed snapshot, end mark included. Of a file it is not verified: see `verify` and `readinto`."""
    @staticmethod
    def empty(*, row_checksums: bool, prefix: PrefixPlan | None = None, timeout_offset: int | None = None) -> Image: ...
    @staticmethod
    def open(buffer: pa.Buffer, path: str, *, drop_pages: Callable[[int, int], object] | None = None) -> Image:
        """An image on the bytes of an image file, whose blocks are verified as they are touched.

        Reading it then raises ImageDamagedError where a block is damaged. `drop_resident_pages` calls `drop_pages`.

        Raises:
            CorruptFileError: the header is damaged, or the file's length is not the one that it tells.
            UnsupportedVersionError: the file is of another format version.
        """
    def verify(self, step: Callable[[], object] | None = None) -> None:
        """Verifies all blocks, and calls `step` after each 256 KiB; ImageDamagedError."""
    def readinto(self, buffer: Buffer, position: int) -> int:
        """Copies verified bytes of `records`, from `position` on, and returns how many; 0 at their end."""
    def drop_resident_pages(self, step: Callable[[], object] | None = None) -> None:
        """Takes the pages of a mapped file out of this process's memory; the next reads map them again.

        They stay in the system's page cache. An image in memory stays where it is.
        """
    def parts(self, metadata: bytes, step: Callable[[], object] | None = None) -> list[pa.Buffer]:
        """The image file as buffers to be written one after the other; `open` reads `metadata` from it (at most 1 MiB).

        Making it verifies what was not touched yet and makes all checksums, and calls `step` after each 256 KiB.
        """

@final
class ImageBuilder:
    """Makes an image of the records of a snapshot; of a key that comes twice the last record holds."""

    def __init__(
        self,
        *,
        row_checksums: bool,
        prefix: PrefixPlan | None = None,
        timeout_offset: int | None = None,
        expected_bytes: int = 0,
    ) -> None:
        """`timeout_offset` is that of a column in a row of up to 64; ValueError."""
    def append(self, data: Buffer, keys: pa.Buffer, values: pa.Buffer) -> None:
        """Copies records: bytes, and spans as RecordChunk has them. ValueError: one is a tombstone."""
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
        """`layers` are those of VersionedMap.path, oldest first. ValueError: one is not of the image's format.

        `in_steps=False` is for callers that do not wait between two steps: a step may take longer, the whole less.
        """
    def read(self) -> pa.Buffer | None:
        """Does a millisecond's work or less without the GIL towards the merged records, and returns the next of them.

        Returns:
            A buffer that is good until the next call; it may be empty. The end mark comes last, then None.

        Raises:
            ImageDamagedError: a block of the image is damaged. Each further call of the merger raises it again.
        """
    def build(self) -> bool:
        """Does a millisecond's work or less without the GIL towards an image of them; returns whether there is more.

        Raises:
            ImageDamagedError: a block of the image is damaged.
        """
    def finish(self) -> Image:
        """The image, when `build` has returned False; ValueError before that."""
    def free(self) -> bool:
        """Frees some of an ended merger's memory, of its image's too once that is gone; whether there is more."""

@final
class Layer:
    """The updates from one version to the next, immutable. Made by LayerBuilder and Transaction.seal."""

    num_records: int
    is_whole: bool
    """Whether its puts are all that is there after it, whatever was before. Known only of a transaction's updates."""
    @property
    def nbytes(self) -> int: ...
    def image(self, *, prefix: PrefixPlan | None = None, timeout_offset: int | None = None) -> Image | None:
        """An image of these records, which are shared; None unless they are whole, and puts of a key each."""
    @property
    def records(self) -> pa.Buffer:
        """The uncompressed delta, end mark included."""

@final
class LayerBuilder:
    """Makes a layer of the records of a delta that is read from its file."""

    def __init__(self, *, row_checksums: bool) -> None: ...
    def append(self, data: Buffer, keys: pa.Buffer, values: pa.Buffer) -> None:
        """Copies records, tombstones too; arguments and errors of ImageBuilder.append."""
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
        """Bytes of the layers and of the table over them, without the image."""
    def add(self, parent: int, layer: Layer, step: Callable[[], object] | None = None) -> int:
        """Adds a layer on top of another one and returns its number. Costs what the layer holds.

        `step` is called between two chunks of its records; if it raises, the layer is not added.
        """
    def num_keys(self, layer: int) -> int: ...
    def path(self, layer: int) -> list[Layer]:
        """The layers that lead from the image to this one, which is the last; empty for layer 0."""
    def transaction(self, layer: int) -> Transaction: ...

@final
class Transaction:
    """Reads at one layer, and updates on top of it that only it sees. For one thread; dropping it drops the updates.

    Every method that reads raises ImageDamagedError where it meets a damaged block of an image file.
    """

    num_keys: int
    num_puts: int
    num_removes: int
    @property
    def nbytes(self) -> int: ...
    def get(self, key: bytes) -> bytes | None: ...
    def put(self, key: bytes, value: bytes) -> None: ...
    def remove(self, key: bytes) -> bool:
        """Whether the key was there; an absent one writes nothing."""
    def get_many(self, keys: _Binary) -> _Binary:
        """The keys' values, aligned, null where absent; large_binary only where they are 2 GiB or more together."""
    def put_many(self, keys: _Binary, values: _Binary) -> None:
        """Sets values in their order. ValueError: nulls or other lengths; SizeLimitError: too many; nothing is set."""
    def remove_many(self, keys: _Binary) -> int:
        """How many of the keys were there."""
    def scan(self, max_bytes: int = 1 << 20) -> Iterator[tuple[_Binary, _Binary]]:
        """Every key and value as they are now, in batches of about max_bytes; later updates do not show."""
    def prefix_scan(self, prefix: bytes) -> tuple[_Binary, _Binary]:
        """Every key whose first columns are the row `prefix`, and its value. ValueError: there is no prefix plan.

        Keys that are no rows of so many columns are not found.
        """
    def expired(self, before: int, max_rows: int) -> Iterator[tuple[_Binary, _Binary]]:
        """Every key and value whose timeout is less than `before`, as they are now, in no order.

        Later updates do not show. The cost grows with what it returns, and with the records of the indexes that later
        updates have overwritten. Those are walked once: versions built on this transaction skip them.

        Raises:
            ValueError: the image was made without a timeout offset, or max_rows is less than 1.
        """
    def next_expiry(self) -> int | None:
        """The least timeout of all keys as they are now, None where there is none; ValueError as of `expired`."""
    def seal(self) -> Layer:
        """The updates as a layer to be added; afterwards the transaction can only be read."""
