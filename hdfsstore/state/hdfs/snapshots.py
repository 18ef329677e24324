"""Makes snapshots and images of versions behind the back of the commits.

A snapshot `<v>[_<id>].snapshot` is an image's records, compressed; maintenance/snapshot_schedule.py says when one is
due. What is merged is immutable, so nothing here takes a lock that a commit needs.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import closing

import pyarrow as pa

from hdfsstore._cext.versioned_map import Image, Merger
from hdfsstore.codecs.compression import compressed
from hdfsstore.codecs.records import CHUNK_BYTES
from hdfsstore.errors import ImageDamagedError, StateStoreError
from hdfsstore.state.conf import StateStoreConf
from hdfsstore.state.hdfs.cached_versions import HdfsVersion, HdfsVersions
from hdfsstore.state.hdfs.image_schedule import OVERDUE, has_outgrown
from hdfsstore.state.hdfs.loader import HdfsLoader
from hdfsstore.state.hdfs.version_images import VersionImages
from hdfsstore.state.indexes import Indexes
from hdfsstore.state.maintenance.snapshot_schedule import Schedule
from hdfsstore.state.maintenance.throttle import Step, no_step
from hdfsstore.state.maintenance.uploads import Uploads
from hdfsstore.state.metrics import MaintenanceMetrics
from hdfsstore.state.parallel import stream_all
from hdfsstore.state.trim_memory import trim_memory
from hdfsstore.state.versions.files import StateFiles, VersionId
from hdfsstore.state.versions.lineages import EMPTY, MAX_ATTEMPTS
from hdfsstore.state.versions.reader import VersionReader

log = logging.getLogger("hdfsstore.state.hdfs.snapshots")

# Once so many times more deltas follow a snapshot than one is due after, a batch makes it before it begins: the
# background's processes were ended, or all cores are busy.
_OVERDUE = 4

# The first partitions' images are due at this part of image_overlay_share, others later: not all in one batch, which
# would take long, and in which processes would hold old and new images side by side.
_EARLIEST = 0.5


class HdfsSnapshots:
    """What one provider's maintenance does for loads to come. One thread at a time.

    Args:
        indexes: of the images.
        partition_id: of the store.
        loader: loads versions that are not cached, or whose image is damaged.
    """

    def __init__(
        self,
        reader: VersionReader,
        indexes: Indexes,
        conf: StateStoreConf,
        partition_id: int,
        versions: HdfsVersions,
        images: VersionImages,
        loader: HdfsLoader,
        metrics: MaintenanceMetrics,
    ) -> None:
        self._reader = reader
        self._indexes = indexes
        self._conf = conf
        # Multiples of the golden ratio lie evenly between 0 and 1, however many there are.
        turn = partition_id * 0.618034 % 1
        self._overlay_share = conf.image_overlay_share * (1 - (1 - _EARLIEST) * turn)
        self._versions = versions
        self._images = images
        self._loader = loader
        self._metrics = metrics
        self._schedule: Schedule[HdfsVersion] = Schedule(conf, versions)
        self._uploads = Uploads(reader, versions.lineages, metrics, conf.maintenance_interval)
        self._loaded: VersionId | None = None  # the last version that was loaded only to look whether a snapshot is due

    def run(self, now: float, step: Step) -> list[VersionId]:
        """Writes the snapshots that are due, or else an image if that is.

        Args:
            now: on time.monotonic.
            step: called between two chunks.

        Returns:
            The versions that have a snapshot now.
        """
        due = [] if self._uploads.is_put_off else self._schedule.due(now, self._at_hand())
        if self._made_elsewhere(due):
            due = self._schedule.due(now, self._at_hand())
        uploaded = [version.id for version in due if self._work(version, step, upload=True, install=len(due) == 1)]
        if not due and (held := self._driver_version()) is not None:
            self._adopt(held)
            if (grown := self._grown()) is not None:
                self._work(grown, step, upload=False, install=True)
        return uploaded

    def is_due(self) -> bool:
        """Whether a run would make something for the version that the driver named last. Costs microseconds."""
        held = self._driver_version()
        if held is None:
            return False
        snapshot = self._versions.lineages.deltas_since_snapshot(held) > self._conf.min_deltas_for_snapshot
        return (snapshot and not self._uploads.is_put_off) or self._has_grown(held, self._overlay_share)

    def is_overdue(self) -> bool:
        """Whether the background has not come to it for long, so that the batch is to make it before it begins."""
        held = self._driver_version()
        if held is None:
            return False
        if self._has_grown(held, OVERDUE * self._conf.image_overlay_share):
            return True
        # At some versions only: where each batch has a process of its own, none knows that the ones before it failed.
        every = self._conf.min_deltas_for_snapshot + 1
        late = self._versions.lineages.deltas_since_snapshot(held) - _OVERDUE * every
        return late > 0 and late % every == 1 % every and not self._uploads.is_put_off

    def _made_elsewhere(self, due: Sequence[HdfsVersion]) -> bool:
        """Looks whether another process that works on the store has made a snapshot since; returns whether one has."""
        with_ids = [item for version in due for item in (*version.lineage, version.id) if item[1] is not None]
        if not with_ids:
            return False
        there = StateFiles.list(self._reader.fs, self._reader.folder, self._reader.format.extensions).snapshots
        before = sum(map(self._versions.lineages.deltas_since_snapshot, due))
        for item in with_ids:
            if item in there:
                self._versions.lineages.note_snapshot(item)
        return sum(map(self._versions.lineages.deltas_since_snapshot, due)) < before

    def _adopt(self, version: HdfsVersion) -> None:
        """Goes over to the newest image that another process has made of what leads to the version, if there is one."""
        layers = dict(version.deltas())
        image = self._images.newest(list(reversed(layers)))
        if image is not None:
            self._versions.install(image.tree.image, image.id, layers[image.id])

    def _at_hand(self) -> list[HdfsVersion]:
        """What is held; where memory retains too little, with the version that the driver named last, once each."""
        held = self._versions.cached()
        driver_version = self._versions.driver_version
        if driver_version is None or driver_version in (EMPTY, self._loaded):
            return held
        if any(version.id == driver_version or version.id[0] == driver_version[0] + 1 for version in held):
            return held
        self._loaded = driver_version
        try:
            return [*held, self._loader.load(driver_version)]
        except StateStoreError:
            log.warning(
                "%s: no snapshot of version %d is made, because the version is missing",
                self._reader.folder,
                driver_version[0],
                exc_info=True,
            )
            return held

    def _driver_version(self) -> HdfsVersion | None:
        """The version that the driver named last, if it is held."""
        return next(
            (version for version in self._versions.cached() if version.id == self._versions.driver_version), None
        )

    def _grown(self) -> HdfsVersion | None:
        """That version, if too much was committed since its image."""
        held = self._driver_version()
        return held if held is not None and self._has_grown(held, self._overlay_share) else None

    def _has_grown(self, held: HdfsVersion, share: float) -> bool:
        if held.layer == 0 and held.tree.num_layers <= 2 * MAX_ATTEMPTS:
            return False
        return has_outgrown(held.tree.image, held.tree.map.nbytes, share)

    def _work(self, version: HdfsVersion, step: Step, *, upload: bool, install: bool) -> bool:
        """Merges a version, and once more where its image is damaged. Returns whether it was uploaded."""
        try:
            return self._made(version, step, upload=upload, install=install)
        except ImageDamagedError as error:
            log.warning("%s; version %d is loaded from the checkpoint's files", error, version.id[0])
            return self._made(self._loader.reload(version), step, upload=upload, install=install)

    def _made(self, version: HdfsVersion, step: Step, *, upload: bool, install: bool) -> bool:
        begun = time.monotonic()
        layers = [layer for _, layer in version.deltas()]
        merger = Merger(version.tree.image, layers, **self._indexes) if layers else None
        records = _records(version.tree.image, step) if merger is None else merged(merger, step)
        uploaded = upload and self._uploaded(version, records)
        if install and merger is None:  # the image stays, and what was committed on it and is held no more goes
            tree = version.tree
            self._versions.install(tree.image, tree.image_id, tree.image)
        elif install and merger is not None:
            while merger.build():
                step()
            image = merger.finish()
            mapped = self._images.write(version, image, self._versions.lineages.base_snapshot(version), step=step)
            self._versions.install(mapped or image, version.id, layers[-1], step)
            del image, records
            while merger.free():
                step()
            trim_memory()
            self._metrics.images_built += 1
            self._metrics.image_seconds += time.monotonic() - begun
        version.tree.image.drop_resident_pages(step)  # all of them were read, once
        return uploaded

    def _uploaded(self, version: HdfsVersion, records: Iterator[pa.Buffer]) -> bool:
        # A thread compresses ahead: writing into fresh pages of the system's cache takes half as long as compressing.
        codec = self._reader.format.compression_codec
        with closing(stream_all([lambda: compressed(codec, records)], threads=1)) as pieces:
            return self._uploads.upload(version, pieces)


def merged(merger: Merger, step: Step = no_step) -> Iterator[pa.Buffer]:
    """The records of what is being merged, end mark included."""
    while (chunk := merger.read()) is not None:
        if chunk.size:
            yield chunk
        step()


def _records(image: Image, step: Step) -> Iterator[pa.Buffer]:
    """The records of an image, verified, end mark included."""
    image.verify(step)
    records = image.records
    for start in range(0, records.size, CHUNK_BYTES):
        yield records.slice(start, min(CHUNK_BYTES, records.size - start))
        step()
