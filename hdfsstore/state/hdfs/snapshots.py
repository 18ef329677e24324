"""Makes snapshots and images of versions in the background.

A snapshot `<v>[_<id>].snapshot` is an image's records, compressed; maintenance/snapshot_schedule.py says when one is
due. The merged layers are immutable, so nothing here takes a lock that a commit needs.
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

# At this multiple of the snapshot threshold get_store makes the snapshot synchronously: the background did not come to
# it, because its processes were ended or all cores are busy.
_OVERDUE = 4

# Images are due between this part of image_overlay_share and all of it, depending on the partition. If all were due in
# one batch, it would take long, and processes would hold old and new images side by side.
_EARLIEST = 0.5


class HdfsSnapshots:
    """Makes the snapshots and images of one provider. One thread at a time.

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
        # The fractions of the golden ratio's multiples lie evenly between 0 and 1, for any number of partitions.
        position = partition_id * 0.618034 % 1
        self._overlay_share = conf.image_overlay_share * (1 - (1 - _EARLIEST) * position)
        self._versions = versions
        self._images = images
        self._loader = loader
        self._metrics = metrics
        self._schedule: Schedule[HdfsVersion] = Schedule(conf, versions)
        self._uploads = Uploads(reader, versions.lineages, metrics, conf.maintenance_interval)
        self._loaded: VersionId | None = (
            None  # the last version that was loaded only to check whether a snapshot is due
        )

    def run(self, now: float, step: Step) -> list[VersionId]:
        """Writes the snapshots that are due; if none is, an image that is due.

        Args:
            now: on time.monotonic.
            step: called between two chunks.

        Returns:
            The versions that have a snapshot now.
        """
        due = [] if self._uploads.is_put_off else self._schedule.due(now, self._candidates())
        if self._made_elsewhere(due):
            due = self._schedule.due(now, self._candidates())
        uploaded = [version.id for version in due if self._work(version, step, upload=True, install=len(due) == 1)]
        if not due and (version := self._driver_version()) is not None:
            self._adopt(version)
            if (grown := self._grown()) is not None:
                self._work(grown, step, upload=False, install=True)
        return uploaded

    def is_due(self) -> bool:
        """Whether a run would make something for the version that the driver asked for last. Costs microseconds."""
        version = self._driver_version()
        if version is None:
            return False
        snapshot = self._versions.lineages.deltas_since_snapshot(version) > self._conf.min_deltas_for_snapshot
        return (snapshot and not self._uploads.is_put_off) or self._has_grown(version, self._overlay_share)

    def is_overdue(self) -> bool:
        """Whether it is due for so long that get_store is to make it before the batch begins."""
        version = self._driver_version()
        if version is None:
            return False
        if self._has_grown(version, OVERDUE * self._conf.image_overlay_share):
            return True
        # Only at some versions: if each batch has a process of its own, no process knows that earlier ones failed.
        every = self._conf.min_deltas_for_snapshot + 1
        late = self._versions.lineages.deltas_since_snapshot(version) - _OVERDUE * every
        return late > 0 and late % every == 1 % every and not self._uploads.is_put_off

    def _made_elsewhere(self, due: Sequence[HdfsVersion]) -> bool:
        """Notes the snapshots that other processes have made. Returns whether there is a new one."""
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
        """Moves to the newest image that another process has made of the version or one below it, if there is one."""
        layers = dict(version.deltas())
        image = self._images.newest(list(reversed(layers)))
        if image is not None:
            self._versions.install(image.tree.image, image.id, layers[image.id])

    def _candidates(self) -> list[HdfsVersion]:
        """The cached versions. If the one that the driver asked for last is missing, it is loaded, once."""
        cached = self._versions.cached()
        driver_version = self._versions.driver_version
        if driver_version is None or driver_version in (EMPTY, self._loaded):
            return cached
        if any(version.id == driver_version or version.id[0] == driver_version[0] + 1 for version in cached):
            return cached
        self._loaded = driver_version
        try:
            return [*cached, self._loader.load(driver_version)]
        except StateStoreError:
            log.warning(
                "%s: no snapshot of version %d is made, because the version is missing",
                self._reader.folder,
                driver_version[0],
                exc_info=True,
            )
            return cached

    def _driver_version(self) -> HdfsVersion | None:
        """The version that the driver asked for last, if it is cached."""
        return next(
            (version for version in self._versions.cached() if version.id == self._versions.driver_version), None
        )

    def _grown(self) -> HdfsVersion | None:
        """The same version, if too much was committed since its image."""
        version = self._driver_version()
        return version if version is not None and self._has_grown(version, self._overlay_share) else None

    def _has_grown(self, version: HdfsVersion, share: float) -> bool:
        if version.layer == 0 and version.tree.num_layers <= 2 * MAX_ATTEMPTS:
            return False
        return has_outgrown(version.tree.image, version.tree.map.nbytes, share)

    def _work(self, version: HdfsVersion, step: Step, *, upload: bool, install: bool) -> bool:
        """Makes a snapshot or image; again from the files if the image is damaged. Returns whether it was uploaded."""
        try:
            return self._make(version, step, upload=upload, install=install)
        except ImageDamagedError as error:
            log.warning("%s; version %d is loaded from the checkpoint's files", error, version.id[0])
            return self._make(self._loader.reload(version), step, upload=upload, install=install)

    def _make(self, version: HdfsVersion, step: Step, *, upload: bool, install: bool) -> bool:
        started = time.monotonic()
        layers = [layer for _, layer in version.deltas()]
        merger = Merger(version.tree.image, layers, **self._indexes) if layers else None
        records = _records(version.tree.image, step) if merger is None else merged(merger, step)
        uploaded = upload and self._upload(version, records)
        if install and merger is None:  # the image stays; layers of versions that are no longer cached go
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
            self._metrics.image_seconds += time.monotonic() - started
        version.tree.image.drop_resident_pages(step)  # this has read all of them, once
        return uploaded

    def _upload(self, version: HdfsVersion, records: Iterator[pa.Buffer]) -> bool:
        # A thread compresses ahead, as writing takes half as long as compressing.
        codec = self._reader.format.compression_codec
        with closing(stream_all([lambda: compressed(codec, records)], threads=1)) as pieces:
            return self._uploads.upload(version, pieces)


def merged(merger: Merger, step: Step = no_step) -> Iterator[pa.Buffer]:
    """The records of a merge, with the end mark."""
    while (chunk := merger.read()) is not None:
        if chunk.size:
            yield chunk
        step()


def _records(image: Image, step: Step) -> Iterator[pa.Buffer]:
    """The records of an image, verified, with the end mark."""
    image.verify(step)
    records = image.records
    for start in range(0, records.size, CHUNK_BYTES):
        yield records.slice(start, min(CHUNK_BYTES, records.size - start))
        step()
