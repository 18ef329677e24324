"""Opens what a repair starts from: the logs and the state of a checkpoint after one committed batch."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from pyarrow.fs import FileType

from hdfsstore.checkpoint import conf as confs
from hdfsstore.checkpoint.batch_logs import BatchLogs
from hdfsstore.checkpoint.checkpoint import Checkpoint
from hdfsstore.checkpoint.location import OWN_FOLDER
from hdfsstore.checkpoint.operator_state import OperatorState
from hdfsstore.errors import BatchNotAvailableError, CheckpointNotFoundError, RepairError
from hdfsstore.fs.file_manager import FileManager
from hdfsstore.fs.location import Location
from hdfsstore.fs.reading import file_types, read_file
from hdfsstore.fs.storage_options import StorageOptions


@dataclass(frozen=True, slots=True)
class Source:
    """A checkpoint after a committed batch. Nothing here is ever written to.

    Attributes:
        fs, path: where the checkpoint is.
        checkpoint: the same, opened for reading.
        query_id: the query's id.
        batch_id: the committed batch N. The state is that of version N + 1.
        latest: the newest committed batch.
        begun: the batches after `latest` that have an entry in `offsets`, by number: a restart runs the last one again.
        offsets: the bytes of `offsets/N-1` and `offsets/N`, by number, and of those of `begun` if N is `latest`;
            batch 0 has none before it.
        commits: the bytes of `commits/N-1` and `commits/N`, by number, where they are there: Spark 2.1 wrote none.
        conf: the settings that `offsets/N` pins.
        states: the state of each stateful operator, by number.
    """

    fs: FileManager
    path: str
    checkpoint: Checkpoint
    query_id: str
    batch_id: int
    latest: int
    begun: tuple[int, ...]
    offsets: Mapping[int, bytes]
    commits: Mapping[int, bytes]
    conf: Mapping[str, str]
    states: tuple[OperatorState, ...]

    @classmethod
    def open(
        cls, location: Location, batch_id: int | None = None, storage_options: StorageOptions | None = None
    ) -> Source:
        """Opens a checkpoint of a query of Spark.

        Args:
            location, storage_options: as Checkpoint takes them.
            batch_id: a committed batch; the newest by default.

        Raises:
            BatchNotAvailableError: the batch is not committed, or the logs do not keep it and the one before.
            CheckpointNotFoundError: there is no checkpoint, or it lacks `metadata` or the state of an operator.
            CorruptFileError: a file of the logs or of the operators' metadata is damaged.
            RepairError: the query is one of hdfsstore.spark.
            UnsupportedProviderError: this release cannot read the state.
        """
        checkpoint = Checkpoint(location, storage_options=storage_options)
        fs, path = checkpoint.file_manager, checkpoint.path
        refuse_our_own(fs, path)
        logged = BatchLogs(fs, path).look()
        latest = checkpoint.latest_batch_id
        batch_id = latest if batch_id is None else batch_id
        batch = checkpoint.batch(batch_id)
        if not batch.committed:
            raise BatchNotAvailableError(
                f"batch {batch_id} is not committed", path, remedy=f"The newest committed batch is {latest}"
            )
        operators = checkpoint.operators
        check_operators(path, [operator.operator_id for operator in operators], batch.state_unique_ids)
        begun = tuple(number for number in logged.offsets.files if number > latest)
        wanted = [number for number in (batch_id - 1, batch_id) if number >= 0]
        wanted += begun if batch_id == latest else ()
        return cls(
            fs=fs,
            path=path,
            checkpoint=checkpoint,
            query_id=checkpoint.query_id,
            batch_id=batch_id,
            latest=latest,
            begun=begun,
            offsets={number: _offsets(fs, path, number, batch_id) for number in wanted},
            commits=_commits(fs, path, batch_id),
            conf=batch.conf,
            states=tuple(checkpoint.operator_state(operator.operator_id, batch_id) for operator in operators),
        )

    @property
    def commit(self) -> bytes | None:
        """The bytes of `commits/N`; None: Spark 2.1 wrote none."""
        return self.commits.get(self.batch_id)

    @property
    def provider(self) -> str:
        """The class of the state store provider."""
        return self.states[0].provider if self.states else self.conf.get(confs.PROVIDER, confs.HDFS_PROVIDER)


def refuse_our_own(fs: FileManager, path: str) -> None:
    """Raises RepairError if the checkpoint is of a query of hdfsstore.spark."""
    is_own = path.rpartition("/")[2] == OWN_FOLDER
    if is_own or file_types(fs, [f"{path}/{OWN_FOLDER}"]) == [FileType.Directory]:
        raise RepairError(
            "the query runs with hdfsstore.spark, and this release repairs queries of Spark's own operators only",
            path,
            remedy="Its state can be read with Checkpoint, and copied by a query that starts from a new checkpoint",
        )


def check_operators(path: str, there: Collection[int], committed: Iterable[int]) -> None:
    """Raises CheckpointNotFoundError if the state of an operator is gone.

    Args:
        there: the operators that have a folder. Spark numbers them without a gap.
        committed: those to which a commit gives unique ids.
    """
    gone = sorted({*committed, *range(max(there, default=0))}.difference(there))
    if gone:
        raise CheckpointNotFoundError(
            f"the state of operator {', '.join(map(str, gone))} is gone",
            f"{path}/state/{gone[0]}",
            remedy="The checkpoint was not copied whole: its state would be lost",
        )


def _offsets(fs: FileManager, path: str, number: int, batch_id: int) -> bytes:
    try:
        return read_file(fs, f"{path}/offsets/{number}")
    except FileNotFoundError:
        raise BatchNotAvailableError(
            f"the checkpoint does not keep this entry any more, and Spark needs it to go on from batch {batch_id}",
            f"{path}/offsets/{number}",
            remedy="Give a later batch",
        ) from None


def _commits(fs: FileManager, path: str, batch_id: int) -> dict[int, bytes]:
    found = {}
    for number in (batch_id - 1, batch_id):
        with suppress(FileNotFoundError):
            found[number] = read_file(fs, f"{path}/commits/{number}")
    return found
