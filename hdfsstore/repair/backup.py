"""The backup of an in-place verb: what it takes out of a checkpoint, and what it puts in, to be ended or undone.

    <checkpoint>/_hdfsstore_backup/<time>/
        manifest.json      the Change; written before anything is touched
        new/<path>         entries of logs that the verb puts in, before it does
        moved/<path>       files that it took out, or that it copied
        written.json       the state files that it wrote, once all are there
        done               the verb has ended
        undone             all is back

A path in it begins with `checkpoint/` or, for the log of a file sink, with `sink/`. Each file appears whole or not at
all, and each step may be made again: whoever was killed is continued by carry_out or roll_back (in_place.py).
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from pyarrow.fs import FileType

from hdfsstore.checkpoint.guard import UNDO
from hdfsstore.errors import CorruptFileError, RepairError
from hdfsstore.fs.file_manager import FileManager, OpenFile
from hdfsstore.fs.location import place_of, resolve
from hdfsstore.fs.reading import read_file, read_whole
from hdfsstore.fs.storage_options import StorageOptions
from hdfsstore.repair.held_guard import HeldGuard

FOLDER = "_hdfsstore_backup"
CHECKPOINT, SINK = "checkpoint/", "sink/"
DONE, UNDONE = "done", "undone"
_MANIFEST, _WRITTEN = "manifest.json", "written.json"
_BLOCK = 1 << 20
_NAME = re.compile(r"\d{8}T\d{6}\.\d{3}Z", re.ASCII)
# Where verbs change files; no part of a path is `.` or `..`.
_PATH = re.compile(r"(?:checkpoint/(?:offsets|commits|state)|sink/_spark_metadata)(?:/(?!\.{1,2}(?:/|$))[^/\0]+)+")


@dataclass(frozen=True, slots=True)
class Change:
    """What an in-place verb does to the files of a checkpoint, known before it does anything.

    Attributes:
        verb: its name.
        arguments: its arguments, in values of JSON. A run with the same ones ends what a killed one has begun.
        guard: the number of the guard's entry.
        batch_id: the newest committed batch when the verb has ended.
        moves: the files that are taken out, in that order.
        puts: the files that are put in, in that order.
        copies: the files that are copied to the backup, before any is taken out.
        offsets, commits: the batches that have an entry in each log when the verb has ended.
        state_version: the version that the verb writes to every partition of every store; None: it writes no state.
        parts: with a state_version, the files below `SSTs/` and `logs/` of all stores that are there before.
        sink: the folder of the file sink, as a URI or an absolute path; None: no such sink is touched.
        undoable: whether `undo` takes it back.
        checkpoint: where the checkpoint was. A copy of it has the backup too, and must not undo what is in the sink.
    """

    verb: str
    arguments: Mapping[str, Any]
    guard: int
    batch_id: int
    moves: list[str] = field(default_factory=list)
    puts: list[str] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    commits: list[int] = field(default_factory=list)
    state_version: int | None = None
    parts: list[str] = field(default_factory=list)
    sink: str | None = None
    undoable: bool = True
    checkpoint: str = ""
    copies: list[str] = field(default_factory=list)

    @property
    def guard_path(self) -> str:
        return f"{CHECKPOINT}offsets/{self.guard}"

    def check(self) -> None:
        """Raises ValueError or TypeError if it is none: a backup may have been changed, or come from elsewhere."""
        numbers = [self.guard, self.batch_id, *self.offsets, *self.commits]
        if self.state_version is not None:
            numbers.append(self.state_version)
        if not all(type(number) is int and number >= 0 for number in numbers):
            raise ValueError("a number is none, or below 0")
        texts = [self.verb, self.checkpoint, self.sink or "", *self.parts]
        if not all(isinstance(each, str) for each in texts):
            raise ValueError("a text is none")
        for path in (*self.moves, *self.puts, *self.copies):
            if not _PATH.fullmatch(path):
                raise ValueError(f"no verb changes {path!r}")

    def lines(self) -> list[str]:
        """What is done to files other than those of a state that is written, for a plan."""
        lines = [f"moved to the backup: {path.removeprefix(CHECKPOINT)}" for path in self.moves]
        return lines + [f"written: {path.removeprefix(CHECKPOINT)}" for path in self.puts]


class Backup:
    """One folder in `_hdfsstore_backup`.

    Args:
        fs, root: the checkpoint.
        name: the folder's.
        change: its manifest.
        storage_options: for the sink's folder.
    """

    def __init__(
        self, fs: FileManager, root: str, name: str, change: Change, storage_options: StorageOptions | None = None
    ) -> None:
        self.fs = fs
        self.root = root
        self.name = name
        self.change = change
        self._folder = f"{root}/{FOLDER}/{name}"
        self._sink = None if change.sink is None else resolve(change.sink, storage_options)
        self._guard: HeldGuard | None = None

    @classmethod
    def begin(
        cls,
        fs: FileManager,
        root: str,
        change: Change,
        new: Mapping[str, bytes],
        storage_options: StorageOptions | None = None,
    ) -> Backup:
        """Makes the folder of a verb that has touched nothing yet.

        Args:
            new: the content of those of `change.puts` that is known already.
        """
        change = replace(change, checkpoint=place_of(fs, root))
        backup = cls(fs, root, _new_name(fs, root), change, storage_options)
        for path, content in new.items():
            backup.stage(path, content)
        backup._create(_MANIFEST, json.dumps(asdict(change), indent=1).encode())
        return backup

    @classmethod
    def open(cls, fs: FileManager, root: str, name: str, storage_options: StorageOptions | None = None) -> Backup:
        """The folder of that name.

        Raises:
            RepairError: there is none.
            CorruptFileError: its manifest is damaged.
        """
        path = f"{root}/{FOLDER}/{name}/{_MANIFEST}"
        try:
            if not _NAME.fullmatch(name):
                raise FileNotFoundError(path)
            content = read_file(fs, path)
        except FileNotFoundError:
            raise RepairError(
                "a repair has begun, and its backup is gone",
                path,
                remedy="Put the folder back. Without it nothing tells what the repair has done",
            ) from None
        try:
            change = Change(**json.loads(content))
            change.check()
        except (ValueError, TypeError) as error:
            raise CorruptFileError(f"not the manifest of a backup: {error}", path, remedy="Put it back") from error
        return cls(fs, root, name, change, storage_options)

    @property
    def folder(self) -> str:
        return self._folder

    @property
    def is_held(self) -> bool:
        """Whether the guard is that of this run."""
        return self._guard is not None

    def hold(self, guard: HeldGuard) -> None:
        """Notes the guard that this run has put in."""
        self._guard = guard

    def check_held(self) -> None:
        """Raises RepairError if the guard is no longer that of this run. For each step, right before it."""
        assert self._guard is not None
        if not self._guard.is_there:
            raise self._taken_over(self._guard.path, "`hdfsstore inspect` says how the checkpoint is")

    def check_written(self, fs: FileManager, path: str) -> None:
        """Raises RepairError if the guard is no longer that of this run. For each file, right after it was written.

        A file that came between the last check and the end of another run, which has undone the repair, is deleted.
        """
        assert self._guard is not None
        if self._guard.is_there:
            return
        marks = {info.base_name for info in self.fs.list_folder(self._folder)}
        if UNDONE in marks or self._guard.is_held_by(UNDO):
            fs.delete([path])
        raise self._taken_over(path, "`hdfsstore inspect` says how the checkpoint is")

    def _taken_over(self, path: str, remedy: str) -> RepairError:
        return RepairError(
            f"another process has gone on with this repair, or has taken it back: `{self.change.verb}` stops here",
            path,
            remedy=remedy,
        )

    def mark(self, mark: str) -> None:
        self.check_held()
        self.fs.replace(f"{self._folder}/{mark}", [b"\n"])

    def unmark(self, mark: str) -> None:
        self.check_held()
        self.fs.delete([f"{self._folder}/{mark}"])

    def discard(self) -> None:
        """Deletes the folder of a verb that has touched nothing."""
        new = [f"{self._folder}/new/{path}" for path in self.change.puts]
        self.fs.delete([*new, f"{self._folder}/{_MANIFEST}"])

    def stage(self, path: str, content: bytes) -> None:
        """Keeps what is to be put in at a path."""
        self.fs.replace(f"{self._folder}/new/{path}", [content])

    def staged(self, path: str) -> bytes:
        return _read(self.fs, f"{self._folder}/new/{path}")

    def note_written(self, paths: Iterable[str]) -> None:
        """Notes that the state is written, and its files, relative to the checkpoint."""
        self.check_held()
        self.fs.replace(f"{self._folder}/{_WRITTEN}", [json.dumps(sorted(paths), indent=1).encode()])

    def written(self) -> list[str] | None:
        """The state files that the verb has written; None: they are not all there yet."""
        try:
            content = _read(self.fs, f"{self._folder}/{_WRITTEN}")
        except FileNotFoundError:
            return None
        paths: list[str] = json.loads(content)
        return paths

    def forget_written(self) -> None:
        self.fs.delete([f"{self._folder}/{_WRITTEN}"])

    def place(self, path: str) -> tuple[FileManager, str]:
        """Where a path of the change is."""
        if path.startswith(SINK):
            if self._sink is None:
                raise CorruptFileError("the manifest names no sink", f"{self._folder}/{_MANIFEST}")
            return self._sink[0], f"{self._sink[1]}/{path.removeprefix(SINK)}"
        return self.fs, f"{self.root}/{path.removeprefix(CHECKPOINT)}"

    def take(self, path: str) -> None:
        """Moves a file to the backup; one that is moved already, or gone, is passed over."""
        if self.copy(path):
            fs, where = self.place(path)
            self.check_held()
            fs.delete([where])
            assert self._guard is not None
            if not self._guard.is_there:  # the other one came between the check and the delete
                remedy = f"This file was deleted a moment ago. Put it back if it is missed: {self._moved(path)}"
                raise self._taken_over(where, remedy)

    def copy(self, path: str) -> bool:
        """Copies a file to the backup, unless its copy is there. False: the file is gone."""
        fs, where = self.place(path)
        try:
            # The copy is there if an earlier run was killed right after it.
            with closing(fs.open_file(where)) as file, suppress(FileExistsError):
                self.fs.create(self._moved(path), _pieces(file))
        except FileNotFoundError:
            return False
        return True

    def give_back(self, path: str) -> bool:
        """Puts a copy of a file back from the backup, unless it is in its place. False: it is in neither."""
        fs, where = self.place(path)
        self.check_held()
        try:
            with closing(self.fs.open_file(self._moved(path))) as file, suppress(FileExistsError):
                fs.create(where, _pieces(file))
        except FileNotFoundError:
            return bool(fs.file_infos([where])[0].type == FileType.File)
        return True

    def is_moved(self, path: str) -> bool:
        """Whether the backup has a file that was taken."""
        return bool(self.fs.file_infos([self._moved(path)])[0].type == FileType.File)

    def kept(self) -> dict[str, str]:
        """Where the checkpoint's files were that the backup has, and where they are."""
        paths = [path for path in self.change.moves if path.startswith(CHECKPOINT)]
        infos = self.fs.file_infos([self._moved(path) for path in paths])
        there = [path for path, info in zip(paths, infos, strict=True) if info.type == FileType.File]
        return {self.place(path)[1]: self._moved(path) for path in there}

    def lost(self) -> list[str]:
        """What was to be moved, and is neither in the backup nor in its place."""
        there = self.fs.file_infos([self._moved(path) for path in self.change.moves])
        gone = [path for path, info in zip(self.change.moves, there, strict=True) if info.type != FileType.File]
        places = [(path, *self.place(path)) for path in gone]
        return [path for path, fs, where in places if fs.file_infos([where])[0].type != FileType.File]

    def put(self, path: str) -> None:
        """Puts in a file that is staged, unless it is there.

        Raises:
            RepairError: another file has the name.
        """
        fs, where = self.place(path)
        content = self.staged(path)
        self.check_held()
        try:
            fs.create(where, [content])
            self.check_written(fs, where)
        except FileExistsError:
            if _read(fs, where) != content:
                raise RepairError(
                    f"`{self.change.verb}` is to write this file, and there is another one",
                    where,
                    remedy="Is a query running on the checkpoint? Stop it, then `hdfsstore undo`",
                ) from None

    def is_others(self, path: str) -> bool:
        """Whether a file is there that is none of those that the verb puts in."""
        fs, where = self.place(path)
        try:
            there = _read(fs, where)
        except FileNotFoundError:
            return False
        try:
            return path not in self.change.puts or there != self.staged(path)
        except FileNotFoundError:
            return True  # that of the verb was not made yet

    def take_out(self, path: str) -> None:
        """Deletes a file that was put in; another one of its name stays, and so does one that was moved back."""
        fs, where = self.place(path)
        if path in self.change.moves and not self.is_moved(path):
            return
        try:
            is_ours = _read(fs, where) == self.staged(path)
        except FileNotFoundError:
            return
        if is_ours:
            self.check_held()
            fs.delete([where])

    def _moved(self, path: str) -> str:
        return f"{self._folder}/moved/{path}"

    def _create(self, name: str, content: bytes) -> None:
        self.fs.create(f"{self._folder}/{name}", [content])


def _new_name(fs: FileManager, root: str) -> str:
    """The time, or else the number after the newest one: their order tells which was the last, whatever clocks say."""
    now = time.time_ns() // 1_000_000
    number = int(time.strftime("%Y%m%d%H%M%S", time.gmtime(now // 1000))) * 1000 + now % 1000
    names = [info.base_name for info in fs.list_folder(f"{root}/{FOLDER}") if _NAME.fullmatch(info.base_name)]
    newest = max((int(re.sub(r"\D", "", name)) for name in names), default=0)
    digits = f"{max(number, newest + 1):017}"
    return f"{digits[:8]}T{digits[8:14]}.{digits[14:]}Z"


def last_done(fs: FileManager, root: str, storage_options: StorageOptions | None = None) -> Backup | None:
    """The backup of the last verb that has ended and is not undone."""
    folders = [info.base_name for info in fs.list_folder(f"{root}/{FOLDER}") if info.type == FileType.Directory]
    for name in sorted(folders, reverse=True):
        marks = {info.base_name for info in fs.list_folder(f"{root}/{FOLDER}/{name}")}
        if DONE in marks and UNDONE not in marks:
            backup = Backup.open(fs, root, name, storage_options)
            if backup.change.undoable:
                return backup
    return None


def _read(fs: FileManager, path: str) -> bytes:
    """The bytes of a file, whatever a checksum file says."""
    with closing(fs.open_file(path)) as file:
        return read_whole(file)


def _pieces(file: OpenFile) -> Iterator[bytes]:
    block = bytearray(_BLOCK)
    while size := file.readinto(block):
        yield bytes(memoryview(block)[:size])
