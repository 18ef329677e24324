"""The versions of one store that are held in memory, and what maintenance does with them.

A held version is a layer of a VersionedMap: an image and the deltas after it, which form a tree where a version was
committed more than once. A new image moves the versions that build on it to a map of their own, off the lock.
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

# A new image follows the commits on its own at first. Where they come faster than it gets on, they go over to it.
_TURNS = 3


class LayerTree:
    """A map and the versions that its layers are.

    Attributes:
        map: the image and the deltas after it.
        image: the map's.
        image_id: the version that the image is; (0, None) is the empty store.
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
        """How many there are, of versions that are held no more too."""
        return len(self._layers)

    def path(self, layer: int) -> list[tuple[int, VersionId, Layer]]:
        """What leads from the image, exclusive, to `layer`: numbers, versions and deltas, oldest first."""
        path = []
        while layer:
            parent, version_id, delta = self._layers[layer]
            path.append((layer, version_id, delta))
            layer = parent
        return path[::-1]


@dataclass(frozen=True, slots=True)
class HdfsVersion:
    """One version in memory. It stays readable for whoever has it, whatever is dropped or installed meanwhile.

    Attributes:
        id: its number and, in checkpoint format version 2, its unique id.
        tree, layer: where it is.
        lineage: what a delta on top of it says before its own id: from the presumed last snapshot to the version
            before this one. Empty: this is the first version, or one that is a full snapshot.
        digest: of its file; None where the unique id tells enough, and for version 0.
        committed: whether this provider wrote it.
    """

    id: VersionId
    tree: LayerTree
    layer: int
    lineage: tuple[VersionId, ...] = ()
    digest: FileDigest | None = None
    committed: bool = False
    # Which attempt of the version it is: kept when it moves to a new map, and by nothing else.
    attempt: object = field(default_factory=object)

    def deltas(self) -> list[tuple[VersionId, Layer]]:
        """What was committed since the tree's image, oldest first: the last is this version, if it is not the image."""
        return [(version_id, layer) for _, version_id, layer in self.tree.path(self.layer)]


class HdfsVersions(CachedVersions[HdfsVersion]):
    """Which versions are in memory. Nothing here takes long under the lock: a commit's layer is added without it."""

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
        """Holds a version on top of `base`, wherever that has moved to. Costs the records in between.

        Args:
            deltas: what leads to it, oldest first; the last is the version's own.
            lineage: that of the version, as HdfsVersion has it.
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
                self._hold(version)
                return version

    def drop_tree(self, tree: LayerTree) -> None:
        """Lets go of all that stands on an image."""
        with self._lock:
            self._forget(v for v, held in self._cached.items() if held.tree is tree)

    def install(self, image: Image, image_id: VersionId, top: Layer | Image, step: Step = no_step) -> bool:
        """Moves a version and all that was committed on top of it to a new map over an image of that version.

        The layers are added off the lock, those too that are committed meanwhile. Versions before it and other attempts
        stay where they are, and stores in flight go on with the map they have.

        Args:
            image: everything that the version holds.
            image_id: the version.
            top: the last thing that was merged into the image: a layer of `HdfsVersion.deltas`, or the image before
                (`HdfsVersion.tree.image`) where there was no layer.
            step: called between two chunks. Where it raises, versions that have not moved yet stay where they are.

        Returns:
            Whether a held version moved.
        """
        move = _Move(LayerTree(image, image_id), top)
        elsewhere: set[object] = set()
        found = False
        try:
            for turn in itertools.count():
                left = [v for v in self.cached() if v.tree is not move.tree and v.attempt not in elsewhere]
                if not left:
                    return found
                if turn == _TURNS:
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
        """Bytes of all maps and images that are held; of a mapped image they are the page cache's."""
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
        return {held.tree for held in self.cached()}

    def _current(self, base: HdfsVersion) -> HdfsVersion:
        held = self._cached.get(base.id)
        return base if held is None or held.attempt is not base.attempt else held


class _Move:
    """What leads from one tree to another. Two threads that place the same version both do it, which does no harm."""

    def __init__(self, tree: LayerTree, top: Layer | Image) -> None:
        self.tree = tree
        self._top = top
        self._moved: dict[tuple[LayerTree, int], int] = {}

    def place(self, version: HdfsVersion, step: Step = no_step) -> int | None:
        """Adds to the tree what leads from `top` to the version, where it is missing. Returns its layer there.

        None: the version is not built on `top`.
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
