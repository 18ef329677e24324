"""What the processes do: a writer, which may be killed or meet errors, and a checker after it."""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path

from hdfsstore import StateStoreConf, StateStoreId
from hdfsstore.errors import BatchNotAvailableError, MissingFileError
from hdfsstore.state.hdfs.provider import HdfsStateStoreProvider
from hdfsstore.state.protocols import StateStore, StateStoreProvider
from hdfsstore.state.store_schema import StoreSchema
from tests.faults.history import Done, Expected, Intent, Named, State, VersionId, digest, updated
from tests.faults.server import Child

RETAINED = 3
# In place of a folder for images: none can be made there.
NO_IMAGES = "/dev/null/images"
# How many versions that may be there or not are looked at after a kill.
_OTHERS = 2


@dataclasses.dataclass(frozen=True)
class Job:
    """What a writer has to do.

    Attributes:
        root: the folder for checkpoint and images.
        format_version: of the checkpoint.
        seed: what it chooses by.
        tip: the version to begin on, and its content.
        before: the version before that, where there is one.
        steps: how many steps it makes.
        interval: seconds between two runs of the maintenance in the background; 0: it is called in between.
    """

    root: str
    format_version: int
    seed: str
    tip: tuple[VersionId, State]
    before: tuple[VersionId, State] | None
    steps: int
    interval: float = 0.0


def conf(
    root: str, format_version: int, interval: float = 0.0, images: str = "images", overlay_share: float = 0.1
) -> StateStoreConf:
    """Settings with which snapshots, images and clean-up come every few versions."""
    return StateStoreConf(
        min_deltas_for_snapshot=2,
        min_versions_to_retain=RETAINED,
        max_versions_to_retain_in_memory=2,
        checkpoint_format_version=format_version,
        maintenance_interval=interval,
        local_dir=str(Path(root, images)),
        local_dir_max_bytes=100_000,
        image_overlay_share=overlay_share,
    )


def opened(root: str, settings: StateStoreConf) -> StateStoreProvider:
    """A provider of the one store, as a stateful query's worker has it."""
    return HdfsStateStoreProvider(
        StateStoreId(f"file://{root}/checkpoint/state", 0, 0), settings, StoreSchema(), shared_across_workers=True
    )


def files(root: str) -> Path:
    """The store's folder."""
    return Path(root, "checkpoint/state/0/0")


def write(child: Child, job: Job) -> None:
    """Commits, aborts, goes back and maintains, step by step, and reports each commit before and after it."""
    chosen = random.Random(job.seed)
    (tip, state), before = job.tip, job.before
    # Without a share each commit makes an image.
    settings = conf(
        job.root, job.format_version, job.interval, overlay_share=random.Random(f"{job.seed} images").choice((0.0, 0.1))
    )
    with opened(job.root, settings) as provider:
        for step in range(job.steps):
            kind = chosen.choices(("commit", "twice", "abort", "back", "maintain"), (6, 2, 1, 1, 5))[0]
            if kind == "maintain":
                if not job.interval:
                    provider.do_maintenance()
                continue
            if kind == "back" and before is not None:
                tip, state = before
            child.report(Named(tip))
            if kind == "abort":
                _update(provider, tip, state, f"{job.seed} {step} aborted", commit=False)
                continue
            # V1 has one name for all attempts of a version, so that a re-run has to write what the first run wrote.
            seeds = [f"{job.format_version} {tip[0]}"]
            if job.format_version == 2:
                seeds = [f"{job.seed} {step} {attempt}" for attempt in range(2 if kind == "twice" else 1)]
            winner = chosen.randrange(len(seeds))
            base, base_state = tip, state
            for number, seed in enumerate(seeds):
                intent = Intent(base, seed)
                child.report(intent)
                version_id, after = _update(provider, base, base_state, seed)
                child.report(Done(intent, version_id, number == winner))
                if number == winner:
                    tip, state = version_id, after
            before = base, base_state


def _update(
    provider: StateStoreProvider, base: VersionId, state: State, seed: str, *, commit: bool = True
) -> tuple[VersionId, State]:
    after, updates = updated(state, seed)
    store = provider.get_store(*base)
    put(store, updates)
    if not commit:
        store.abort()
        return base, state
    info = store.commit()
    return (info.version, info.checkpoint_unique_id), after


def put(store: StateStore, updates: dict[bytes, bytes | None]) -> None:
    """Makes the updates; None removes."""
    for key, value in updates.items():
        if value is None:
            store.remove(key)
        else:
            store.put(key, value)


def check(child: Child, root: str, format_version: int, expected: Expected, images: str, seed: str) -> None:
    """Looks whether every version that must be there is, and whether what else is there may be; reports each.

    Args:
        images: the folder of the images below the root.
        seed: what it chooses by among versions that need not be there.
    """
    settings = conf(root, format_version, images=images)
    chosen = random.Random(seed)
    with opened(root, settings) as provider:
        for version_id in chosen.sample(sorted(expected.retained), len(expected.retained)):
            content = _content(provider, version_id)
            assert content == expected.retained[version_id], f"{version_id} has another content"
            child.report(version_id)
    newest = max(version for version, _ in expected.retained)
    left = sorted(_versions(root) - expected.retained.keys(), key=str)
    # Those of an interrupted commit, and some of the others, each by a process that knows of no other.
    untold = [version_id for version_id in left if version_id not in expected.others and version_id[0] > newest]
    for version_id in untold + chosen.sample(left, min(_OTHERS, len(left))):
        with opened(root, settings) as provider:
            try:
                content = _content(provider, version_id)
            except (BatchNotAvailableError, MissingFileError):  # retention may have taken what it needs
                assert version_id not in untold, f"{version_id} is there in part"
                continue
        known = expected.others.get(version_id)
        assert content in (expected.possible[version_id[0]] if known is None else {known}), f"{version_id}: {content}"
        child.report(version_id)


def _content(provider: StateStoreProvider, version_id: VersionId) -> str:
    with provider.get_read_store(*version_id) as store:
        rows = list(store.iterator())
        assert len(dict(rows)) == len(rows), "a key came twice"
        return digest(dict(rows))


def _versions(root: str) -> set[VersionId]:
    """Every version that a file tells of."""
    names = [path.stem.partition("_") for path in files(root).glob("[0-9]*") if path.suffix in (".delta", ".snapshot")]
    return {(int(number), unique_id or None) for number, _, unique_id in names}
