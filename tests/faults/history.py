"""What writers do to a store, one process after the other, and what must then be in it."""

from __future__ import annotations

import dataclasses
import hashlib
import random
from typing import NamedTuple, TypeAlias

VersionId: TypeAlias = tuple[int, str | None]
State: TypeAlias = dict[bytes, bytes]

EMPTY: VersionId = (0, None)
# Few keys and some long values: every delta overwrites, removes and adds, and files are of several blocks.
_KEYS = 60
_UPDATES = 25


def updated(state: State, seed: str) -> tuple[State, dict[bytes, bytes | None]]:
    """The state after the updates that follow from the seed, and the updates; None removes a key."""
    chosen = random.Random(seed)
    updates: dict[bytes, bytes | None] = {}
    for _ in range(_UPDATES):
        key = b"key %03d" % chosen.randrange(_KEYS)
        size = chosen.choice((0, 5, 40, 40, 40, 3000))
        updates[key] = None if chosen.random() < 0.2 else chosen.randbytes(size)
    after = {**state, **updates}
    return {key: value for key, value in after.items() if value is not None}, updates


def digest(state: State) -> str:
    """What tells two states apart."""
    hashed = hashlib.sha256()
    for key, value in sorted(state.items()):
        hashed.update(b"%d %d " % (len(key), len(value)) + key + value)
    return hashed.hexdigest()


class Named(NamedTuple):
    """A writer says that it is about to open a version, which tells the store what may be forgotten."""

    base: VersionId


class Intent(NamedTuple):
    """A writer says that it is about to commit updates on top of a version."""

    base: VersionId
    seed: str


class Done(NamedTuple):
    """A writer says that a commit has returned."""

    intent: Intent
    id: VersionId
    chosen: bool  # whether the query goes on from it


@dataclasses.dataclass(frozen=True)
class Expected:
    """What a checker looks for; contents are digests.

    Attributes:
        retained: what must be there.
        others: versions of which a commit was reported too: what they hold if they can still be read.
        possible: by version number, what a file of which nobody was told may hold.
    """

    retained: dict[VersionId, str]
    others: dict[VersionId, str]
    possible: dict[int, set[str]]


class History:
    """The versions of one store as its driver knows them: what was reported, and of each number what was chosen.

    Args:
        min_versions_to_retain: of the store.
    """

    def __init__(self, min_versions_to_retain: int) -> None:
        self._retain = min_versions_to_retain
        self.chain: list[VersionId] = [EMPTY]
        self._states: dict[VersionId, State] = {EMPTY: {}}
        self._digests: dict[VersionId, str] = {}
        self._possible: dict[int, set[str]] = {}
        self._newest = 0

    @property
    def tip(self) -> VersionId:
        """The version that the query goes on from."""
        return self.chain[-1]

    @property
    def before(self) -> VersionId | None:
        """The version that the query could go back to."""
        return self.chain[-2] if len(self.chain) > 1 else None

    def state(self, version_id: VersionId) -> State:
        """The content of a version that is retained."""
        return self._states[version_id]

    def note(self, message: Named | Intent | Done) -> None:
        """What a writer has reported."""
        if isinstance(message, Named):
            self._newest = max(self._newest, message.base[0])
            return
        if isinstance(message, Intent):
            after, _ = updated(self._states[message.base], message.seed)
            self._possible.setdefault(message.base[0] + 1, set()).add(digest(after))
            return
        after, _ = updated(self._states[message.intent.base], message.intent.seed)
        self._states[message.id], self._digests[message.id] = after, digest(after)
        if message.chosen:
            del self.chain[message.intent.base[0] + 1 :]
            self.chain.append(message.id)

    def expected(self) -> Expected:
        """What must be in the store, and forgets what is older than that."""
        oldest = max(0, self._newest - self._retain)
        retained = {version_id: digest(self._states[version_id]) for version_id in self.chain[oldest:]}
        self._states = {version_id: state for version_id, state in self._states.items() if version_id[0] >= oldest}
        others = {version_id: content for version_id, content in self._digests.items() if version_id not in retained}
        return Expected(retained, others, self._possible)
