"""Keeps versions of one store in memory, and moves them to new images.

A cached version is a layer of a VersionedMap: an image and the deltas after it. They form a tree if a version was
committed more than once. A new image moves the versions that build on it to a map of their own, without the lock.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from hdfsstore._cext.versioned_map import Image, Layer, VersionedMap
from hdfsstore.state.maintenance.throttle import Step, no_step
from hdfsstore.state.versions.cached import CachedVersions
from hdfsstore.state.versions.digest import FileDigest
from hdfsstore.state.versions.files import VersionId

# A new image catches up with commits by itself, so many rounds. After that each commit adds its own layer to it.
_ROUNDS = 3


class LayerTree:
    """A map, and the version of each of its layers.

    Attributes:
        map: the image and the deltas after it.
        image: the map's image.
        image_id: version of the image; (0, None) is the empty store.
    """

    def __init__(self, image: Image, image_id: VersionId) -> None:
        self.map = VersionedMap(image)
        self.image = image
        self.image_id = image_id
        self._layers: dict[int, tuple[int, VersionId, Layer]] = {}

    def add(self, parent: int, layer: Layer, version_id: VersionId, step: Step = no_step) -> int:
        """Adds a version on top of the layer `parent`, 0 being the image; returns its layer's number.

        Args:
            step: called between two chunks of the layer's records; it may raise.
        """
        number = self.map.add(parent, layer, step)
        self._layers[number] = parent, version_id, layer
        return number

    @property
    def num_layers(self) -> int:
        """Number of layers, with those of versions that are no longer cached."""
        return len(self._layers)

    def path(self, layer: int) -> list[tuple[int, VersionId, Layer]]:
        """The layers after the image up to `layer`, oldest first: numbers, versions and deltas."""
        path = []
        while layer:
            parent, version_id, delta = self._layers[layer]
            path.append((layer, version_id, delta))
            layer = parent
        return path[::-1]


@dataclass(frozen=True, slots=True)
class HdfsVersion:
    """One version in memory. Its holders can read it whatever is dropped or installed meanwhile.

    Attributes:
        id: its number and, in checkpoint format version 2, its unique id.
        tree, layer: where it is.
        lineage: the versions from the presumed last snapshot up to the one before. Empty: this is the first version,
            or a full snapshot.
        digest: of its file; None for version 0, and for versions with a unique id, which need none.
        committed: whether this provider wrote it.
    """

    id: VersionId
    tree: LayerTree
    layer: int
    lineage: tuple[VersionId, ...] = ()
    digest: FileDigest | None = None
    committed: bool = False
    # Identifies the attempt at the version. It stays the same only when the version moves to a new map.
    attempt: object = field(default_factory=object)

    def deltas(self) -> list[tuple[VersionId, Layer]]:
        """The deltas since the tree's image, oldest first. The last is this version's, unless it is the image."""
        return [(version_id, layer) for _, version_id, layer in self.tree.path(self.layer)]


class HdfsVersions(CachedVersions[HdfsVersion]):
    """The versions in memory. The lock is never held for long: a commit adds its layer without it."""

    def __init__(self, max_retained: int) -> None:
        super().__init__(max_retained)
        self._move: _Move | None = None

    def append(
        self,
        base: HdfsVersion,
        deltas: Sequence[tuple[VersionId, Layer]],
        lineage: tuple[VersionId, ...],
        digest: FileDigest | None = None,
        *,
        committed: bool = False,
    ) -> HdfsVersion:
        """Caches a version on top of `base`, even if `base` has moved. Costs the records in between.

        Args:
            deltas: those after `base`, oldest first. The last is the version's own.
            lineage: of the version, as HdfsVersion has it.
        """
        while True:
            with self._lock:
                on, move = self._current(base), self._move
            tree, number = on.tree, on.layer
            if move is not None and (placed := move.place(on)) is not None:
                tree, number = move.tree, placed
            for version_id, layer in deltas:
                number = tree.add(number, layer, version_id)
            version = HdfsVersion(deltas[-1][0], tree, number, lineage, digest, committed)
            with self._lock:
                if self._current(base) is not on:
                    continue  # it moved meanwhile
                self._add(version)
                return version

    def drop_tree(self, tree: LayerTree) -> None:
        """Drops all versions of one tree."""
        with self._lock:
            self._forget(v for v, cached in self._cached.items() if cached.tree is tree)

    def install(self, image: Image, image_id: VersionId, top: Layer | Image, step: Step = no_step) -> bool:
        """Moves a version, and those that build on it, to a new map over an image of that version.

        The layers are added without the lock, with those that are committed meanwhile. Older versions and other
        attempts stay where they are. Open stores keep their map.

        Args:
            image: the whole version.
            image_id: the version.
            top: the last layer that was merged into the image, one of `HdfsVersion.deltas`. Without a layer, the
                image before (`HdfsVersion.tree.image`).
            step: called between two chunks. If it raises, versions that have not moved yet stay where they are.

        Returns:
            Whether a cached version moved.
        """
        move = _Move(LayerTree(image, image_id), top)
        elsewhere: set[object] = set()
        found = False
        try:
            for round_number in itertools.count():
                left = [v for v in self.cached() if v.tree is not move.tree and v.attempt not in elsewhere]
                if not left:
                    return found
                if round_number == _ROUNDS:
                    self._move = move
                for version in left:
                    number = move.place(version, step)
                    if number is None:
                        elsewhere.add(version.attempt)
                        continue
                    with self._lock:
                        if self._cached.get(version.id) is version:
                            self._cached[version.id] = replace(version, tree=move.tree, layer=number)
                            found = True
        finally:
            self._move = None
        return found

    @property
    def nbytes(self) -> int:
        """Bytes of all maps and images. Those of mapped images are in the system's page cache."""
        return sum(tree.map.nbytes + tree.image.nbytes for tree in self._trees())

    def drop_resident_pages(self) -> None:
        """Takes the pages of mapped images out of this process's memory until they are read again."""
        for tree in self._trees():
            tree.image.drop_resident_pages()

    def after_fork(self) -> None:
        """In a forked child: no thread is left that could hold a lock."""
        super().after_fork()
        self._move = None

    def _trees(self) -> set[LayerTree]:
        return {version.tree for version in self.cached()}

    def _current(self, base: HdfsVersion) -> HdfsVersion:
        """The version where it is now, after any move."""
        cached = self._cached.get(base.id)
        return base if cached is None or cached.attempt is not base.attempt else cached


class _Move:
    """The move of versions from their trees to another. Two threads may place the same version; this does no harm."""

    def __init__(self, tree: LayerTree, top: Layer | Image) -> None:
        self.tree = tree
        self._top = top
        self._moved: dict[tuple[LayerTree, int], int] = {}

    def place(self, version: HdfsVersion, step: Step = no_step) -> int | None:
        """Adds the layers after `top` up to the version to the tree, where they are missing.

        Returns:
            The version's layer there; None: the version is not built on `top`.
        """
        old, moved = version.tree, self._moved
        at = 0 if old.image is self._top else None
        for number, version_id, layer in old.path(version.layer):
            if layer is self._top:
                at = 0
            elif at is not None:
                known = moved.get((old, number))
                at = moved[old, number] = self.tree.add(at, layer, version_id, step) if known is None else known
        return at
