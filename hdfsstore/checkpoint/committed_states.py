"""Finds the state of an operator after a committed batch: its metadata, its provider, and its unique ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from hdfsstore.checkpoint import conf as confs
from hdfsstore.checkpoint.batch_conf import BatchConf, first_repartition, nearest_conf
from hdfsstore.checkpoint.batch_logs import BatchLogs, Logged
from hdfsstore.checkpoint.operator_state import OperatorState
from hdfsstore.checkpoint.operators import Operator, OperatorFiles, list_operators
from hdfsstore.errors import BatchNotAvailableError, CheckpointNotFoundError, UnsupportedProviderError
from hdfsstore.fs.file_manager import FileManager
from hdfsstore.fs.in_order import both, in_order
from hdfsstore.state.readers import backend_of


class CommittedStates:
    """The state of a checkpoint's operators, after each of its committed batches.

    Args:
        path: the checkpoint.
        logs: its logs.
        max_record_bytes: as OperatorState has it.
    """

    def __init__(self, fs: FileManager, path: str, logs: BatchLogs, max_record_bytes: int) -> None:
        self._fs = fs
        self._path = path
        self._logs = logs
        self._max_record_bytes = max_record_bytes

    def find(self, operator_id: int, batch_id: int | None, batch_ids: Sequence[int] = ()) -> OperatorState:
        """The operator's state after a batch, as Checkpoint.operator_state says."""
        (committed_id, pinned, logged), files = both(
            self._fs,
            partial(self.committed, batch_id),
            partial(OperatorFiles, self._fs, self._path, operator_id, batch_id),
        )
        conf = pinned.conf if pinned else {}
        return OperatorState(
            fs=self._fs,
            provider=self._readable(conf),
            operator=self.operator(files, committed_id, pinned),
            version=committed_id + 1,
            unique_ids=self._unique_ids(operator_id, logged, batch_ids or (committed_id,)),
            conf=conf,
            max_record_bytes=self._max_record_bytes,
        )

    def latest(self, logged: Logged) -> int:
        """The newest batch that is committed. Raises BatchNotAvailableError, or RepairUnderWayError."""
        if not logged.done:
            if logged.repair is not None:
                raise logged.repair
            begun = logged.offsets.files
            what = f"batch {max(begun)} is under way, and" if begun else "the query has not begun:"
            raise BatchNotAvailableError(
                f"{what} no batch is committed", self._path, remedy="Let the query finish a batch, then read again"
            )
        return max(logged.done)

    def operator(self, files: OperatorFiles, batch_id: int | None, conf: BatchConf | None) -> Operator:
        """The operator of these files, as it is at a batch of that conf. Raises CheckpointNotFoundError."""
        if not files.empty:
            return files.at(batch_id, conf)
        operators = list_operators(self._fs, self._path, batch_id)
        for operator in operators:
            if operator.operator_id == files.operator_id:
                return operator
        numbers = ", ".join(str(operator.operator_id) for operator in operators)
        raise CheckpointNotFoundError(
            f"the query has no operator {files.operator_id}",
            self._path,
            remedy=f"Its operators are {numbers}" if numbers else "It keeps no state",
        )

    def committed(self, batch_id: int | None) -> tuple[int, BatchConf | None, Logged]:
        """A committed batch, the newest by default, the conf that it ran under, and the listing that tells of it.

        Any batch before the newest was committed once: its logs may be purged before its state is.
        """
        logged = self._logs.look()
        latest = self.latest(logged)
        batch_id = latest if batch_id is None else batch_id
        begun = logged.offsets.files
        if batch_id > latest or batch_id < 0 or (batch_id in begun and batch_id not in logged.done):
            what = "was begun and is not committed" if batch_id in begun else "does not exist"
            raise BatchNotAvailableError(
                f"batch {batch_id} {what}", self._path, remedy=f"The newest committed batch is {latest}"
            )
        return batch_id, nearest_conf(self._logs, logged, batch_id), logged

    def check_deltas(self, batch_ids: range) -> None:
        """Raises BatchNotAvailableError if the changes of these batches are not all in deltas: see batch_conf.py."""
        found = first_repartition(self._logs, self._logs.look(), batch_ids)
        if found is not None:
            raise BatchNotAvailableError(
                f"the state has {found.before} partitions before batch {found.batch_id}, and {found.after} from it on: "
                "no deltas lead from one to the other",
                f"{self._path}/offsets/{found.batch_id}",
                remedy="Read the changes of the batches before it and after it, each alone, and the state at it",
            )

    def provider_of(self, conf: Mapping[str, str]) -> str:
        """The class of the state store provider that wrote a batch with that conf, else told by the files."""
        return conf[confs.PROVIDER] if confs.PROVIDER in conf else self._provider_of_files()

    def _unique_ids(self, operator_id: int, logged: Logged, batch_ids: Sequence[int]) -> dict[int, list[list[str]]]:
        """Version -> partition -> the id of each store, for those of these batches that wrote ids."""
        commits = logged.commits
        wanted = [batch_id for batch_id in batch_ids if batch_id in commits.files]
        entries = self._logs.commits.read_all(commits, wanted)
        return {
            batch_id + 1: entry.state_unique_ids[operator_id]
            for batch_id, entry in entries.items()
            if operator_id in entry.state_unique_ids
        }

    def _readable(self, conf: Mapping[str, str]) -> str:
        """The provider of a batch with that conf. Raises UnsupportedProviderError if it is none of Spark's."""
        provider = self.provider_of(conf)
        if provider not in confs.BACKENDS:
            raise UnsupportedProviderError(
                f"the state is in the format of {provider}, which this release cannot read",
                self._path,
                remedy="Batches, operators and schemas can be read; for the rows use Spark's statestore source",
            )
        return provider

    def _provider_of_files(self) -> str:
        stores = (store for operator in list_operators(self._fs, self._path) for store in operator.stores)
        folders = (store.partition_path(partition) for store in stores for partition in store.partition_ids)
        with in_order(self._fs, [partial(self._fs.list_folder, folder) for folder in folders]) as listed:
            return confs.PROVIDERS[backend_of(info.base_name for infos in listed for info in infos)]
