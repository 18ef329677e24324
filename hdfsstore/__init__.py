"""The state of Spark's streaming queries, opened from Python at native speed."""

from hdfsstore.checkpoint.batch import Batch
from hdfsstore.checkpoint.checkpoint import Checkpoint
from hdfsstore.checkpoint.commit_log import CommitLog
from hdfsstore.checkpoint.operators import Operator, Store
from hdfsstore.conditions.fields import ConditionError
from hdfsstore.errors import (
    BatchAlreadyLoggedError,
    BatchNotAvailableError,
    CheckpointIdMismatchError,
    CheckpointNotFoundError,
    CorruptFileError,
    FileSystemTimeoutError,
    LogMismatchError,
    MissingFileError,
    NotPromisedError,
    PlacementError,
    RepairError,
    RepairUnderWayError,
    SchemaMismatchError,
    SizeLimitError,
    StateStoreClosedError,
    StateStoreError,
    UnsupportedProviderError,
    UnsupportedQueryError,
    UnsupportedSettingError,
    UnsupportedTypeError,
    UnsupportedVersionError,
)
from hdfsstore.release import RELEASE as __version__
from hdfsstore.state.conf import StateStoreConf
from hdfsstore.state.open import open_provider
from hdfsstore.state.placement import partition_ids
from hdfsstore.state.protocols import StateStoreCheckpointInfo
from hdfsstore.state.store_id import StateStoreId

__all__ = [
    "Batch",
    "BatchAlreadyLoggedError",
    "BatchNotAvailableError",
    "Checkpoint",
    "CheckpointIdMismatchError",
    "CheckpointNotFoundError",
    "CommitLog",
    "ConditionError",
    "CorruptFileError",
    "FileSystemTimeoutError",
    "LogMismatchError",
    "MissingFileError",
    "NotPromisedError",
    "Operator",
    "PlacementError",
    "RepairError",
    "RepairUnderWayError",
    "SchemaMismatchError",
    "SizeLimitError",
    "StateStoreCheckpointInfo",
    "StateStoreClosedError",
    "StateStoreConf",
    "StateStoreError",
    "StateStoreId",
    "Store",
    "UnsupportedProviderError",
    "UnsupportedQueryError",
    "UnsupportedSettingError",
    "UnsupportedTypeError",
    "UnsupportedVersionError",
    "__version__",
    "open_provider",
    "partition_ids",
]
