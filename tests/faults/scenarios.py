"""What tests run in a process with the shim: a store that meets errors, and goes on once their cause is gone."""

from __future__ import annotations

import errno
import itertools
import multiprocessing.connection
import os
import random
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from hdfsstore.errors import CorruptFileError, StateStoreError
from hdfsstore.state.protocols import StateStoreProvider
from tests.faults.history import EMPTY, State, VersionId, updated
from tests.faults.server import Child
from tests.faults.shim import Action, Fault
from tests.faults.writer import NO_IMAGES, conf, files, opened, put

NOBODY = 65534


class Store:
    """A provider on a folder, and what its versions hold."""

    def __init__(self, root: str, format_version: int, images: str = "images") -> None:
        self.root = root
        self.format_version = format_version
        self.provider = self.fresh(images)
        self.tip = EMPTY
        self.states: dict[VersionId, State] = {EMPTY: {}}

    def fresh(self, images: str = "images") -> StateStoreProvider:
        """Another provider of the same store, as a process that was just started has it."""
        return opened(self.root, conf(self.root, self.format_version, images=images))

    def commit(self, seed: str) -> VersionId:
        """Commits on top of the newest version."""
        after, updates = updated(self.states[self.tip], seed)
        store = self.provider.get_store(*self.tip)
        put(store, updates)
        info = store.commit()
        self.tip = info.version, info.checkpoint_unique_id
        self.states[self.tip] = after
        return self.tip

    def try_commit(self, seed: str) -> StateStoreError | None:
        """Commits, and goes on from before if that raises, as the query does that runs the batch again."""
        raised = error_of(lambda: self.commit(seed))
        assert raised is None or (raised.path is not None and raised.remedy is not None)
        return raised

    def check(self, versions: int = 4) -> None:
        """Every one of the newest versions is there, for this provider and for one that knows nothing."""
        fresh = self.fresh("images-of-the-checker")
        with fresh:
            for version_id in list(self.states)[-versions:]:
                for provider in (self.provider, fresh):
                    assert read(provider, version_id) == self.states[version_id], version_id


def read(provider: StateStoreProvider, version_id: VersionId) -> State:
    with provider.get_read_store(*version_id) as store:
        return dict(store.iterator())


def error_of(work: Callable[[], object]) -> StateStoreError | None:
    """The typed error that something raises, if it does."""
    try:
        work()
    except StateStoreError as error:
        return error
    return None


def failing_commits(child: Child, root: str, format_version: int, error: int) -> None:
    """A commit whose n-th call fails, and all after it, for each n; reports the n."""
    store = Store(root, format_version)
    store.commit("first")
    for at in itertools.count(1):
        child.shim.arm(Fault(f"{root}/checkpoint", Action.FAIL_FROM, at, error))
        raised = store.try_commit(f"{at}")
        child.shim.disarm()
        if not child.shim.what:
            break
        child.report((at, child.shim.what.partition(" ")[0], raised is not None))
        if raised is not None:
            assert os.strerror(error) in str(raised)
            store.check()
            store.commit(f"{at} again")
        store.check()
        names = [path.name for path in files(root).iterdir()]
        if raised is not None and error != errno.EROFS:
            assert sum(name.endswith(".tmp") for name in names) <= at, names
        store.provider.do_maintenance()


def failing_maintenance(child: Child, root: str, format_version: int, error: int) -> None:
    """Maintenance whose n-th call fails, and all after it, for each n; reports the n."""
    store = Store(root, format_version)
    for at in itertools.count(1):
        for step in range(5):
            store.commit(f"{at} {step}")
        child.shim.arm(Fault(root, Action.FAIL_FROM, at, error))
        raised = error_of(store.provider.do_maintenance)
        child.shim.disarm()
        assert raised is None or os.strerror(error) in str(raised)
        if not child.shim.what:
            break
        child.report((at, child.shim.what.partition(" ")[0]))
        store.check()
        store.provider.do_maintenance()
        store.check()
    assert list(files(root).glob("*.snapshot")), "there is no snapshot"


def failing_images(child: Child, root: str, format_version: int, error: int) -> None:
    """Images whose n-th call fails, and all after it: nobody notices; reports the n."""
    for at in itertools.count(1):
        child.shim.arm(Fault(f"{root}/{at}/images", Action.FAIL_FROM, at, error))
        store = Store(f"{root}/{at}", format_version)
        for step in range(8):
            store.commit(f"{at} {step}")
            store.provider.do_maintenance()
        store.check()
        child.shim.disarm()
        if not child.shim.what:
            break
        child.report((at, child.shim.what.partition(" ")[0]))
        store.commit(f"{at} after")
        store.provider.do_maintenance()
        store.check()
        store.provider.close()


def full_disk(child: Child, root: str, format_version: int) -> None:
    """`root` is a small file system of its own."""
    store = Store(root, format_version, images=NO_IMAGES)
    store.commit("first")
    ballast = Path(root, "ballast")
    subprocess.run(["dd", "if=/dev/zero", f"of={ballast}", "bs=4k"], stderr=subprocess.DEVNULL, check=False)
    raised = store.try_commit("on a full disk")
    child.report(str(raised))
    store.check()
    store.provider.do_maintenance()
    ballast.unlink()
    for step in range(5):
        store.commit(f"after {step}")
        store.provider.do_maintenance()
    store.check()


def without_rights(child: Child, root: str, format_version: int, mode: int) -> None:
    """As a user to whom rights mean something, the folder's are taken and given back."""
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    store = Store(root, format_version)
    for step in range(4):
        store.commit(f"{step}")
    folder = files(root)
    for lost in (folder, folder.parent):
        lost.chmod(mode)
        raised = store.try_commit(f"without rights in {lost}")
        child.report(None if raised is None else str(raised))
        with store.fresh(NO_IMAGES) as fresh:
            raised = error_of(lambda: read(fresh, store.tip))  # called at once
            child.report(None if raised is None else str(raised))
        error_of(store.provider.do_maintenance)
        lost.chmod(0o700)
        store.commit(f"after {lost}")
        store.provider.do_maintenance()
        store.check()


def truncated_files(child: Child, root: str, format_version: int) -> None:
    """Each file of the store is cut at several lengths, and then restored."""
    store = Store(root, format_version)
    for step in range(10):
        store.commit(f"{step}")
        if step in (4, 8):
            store.provider.do_maintenance()
    versions = list(store.states)[-4:]
    contents: list[State] = []
    for path in sorted(files(root).glob("[0-9]*")):
        content = path.read_bytes()
        number = int(path.name.partition(".")[0].partition("_")[0])
        for length in sorted({0, 1, len(content) // 2, len(content) - 1}):
            os.truncate(path, length)
            for version_id in versions:
                with store.fresh(NO_IMAGES) as fresh:
                    error = error_of(lambda: contents.append(read(fresh, version_id)))  # noqa: B023  # called at once
                if error is None:
                    assert contents.pop() == store.states[version_id], (path, length)
                else:
                    assert isinstance(error, CorruptFileError)
                    assert error.path == str(path), error
                    assert number <= version_id[0], "an earlier version is damaged"
                child.report("read" if error is None else "refused")
            path.write_bytes(content)
            store.check()
    store.commit("after all")
    store.check()


def racing_commits(child: Child, root: str, format_version: int, rounds: int) -> None:
    """Two processes, each with a provider of its own, commit other updates on top of the same version at once."""
    store = Store(root, format_version)
    store.commit("first")
    for number in range(rounds):
        base = store.states[store.tip]
        results = _raced(root, format_version, store.tip, base)
        contents = {tag: updated(base, tag)[0] for tag in "ab"}
        with store.fresh("images-of-the-checker") as fresh:
            if format_version == 2:
                assert len(results) == 2, "a commit failed"
                chosen = "ab"[number % 2]
                for tag, version_id in results.items():
                    assert read(fresh, version_id) == contents[tag]
            else:
                found = read(fresh, (store.tip[0] + 1, None))
                [chosen] = [tag for tag in results if contents[tag] == found]
        store.tip = results[chosen]
        store.states[store.tip] = contents[chosen]
        child.report((chosen, len(results)))
        for step in range(3):
            store.check()
            store.provider.do_maintenance()
            store.commit(f"{number} {step}")


def _raced(root: str, format_version: int, tip: VersionId, base: State) -> dict[str, VersionId]:
    """What each of the racers has committed, by its tag; one that failed is not in it."""
    start, starter = os.pipe()
    racers = {}
    for tag in "ab":
        receiver, sender = multiprocessing.connection.Pipe(duplex=False)
        pid = os.fork()
        if pid == 0:
            os.close(starter)
            try:
                sender.send(_race(root, format_version, tip, base, tag, start))
            finally:
                os._exit(0)
        sender.close()
        racers[tag] = pid, receiver
    os.close(start)
    os.close(starter)  # now both go
    results = {}
    for tag, (pid, receiver) in racers.items():
        version_id = receiver.recv()
        os.waitpid(pid, 0)
        receiver.close()
        if version_id is not None:
            results[tag] = version_id
    return results


def _race(root: str, format_version: int, tip: VersionId, base: State, tag: str, start: int) -> VersionId | None:
    with opened(root, conf(root, format_version)) as provider:
        store = provider.get_store(*tip)
        put(store, updated(base, tag)[1])
        os.read(start, 1)
        try:
            info = store.commit()
        except StateStoreError:
            return None
        return info.version, info.checkpoint_unique_id


def damaged_images(child: Child, root: str, format_version: int) -> None:
    """Bytes of images change on the disk; every version is read right all the same, and images are built anew."""
    store = Store(root, format_version)
    chosen = random.Random(format_version)
    for step in range(12):
        store.commit(f"{step}")
        store.provider.do_maintenance()
        images = list(Path(root, "images").glob("*/*.image"))
        for path in images:
            content = bytearray(path.read_bytes())
            for _ in range(chosen.choice((1, 50))):
                content[chosen.randrange(len(content))] ^= 1 << chosen.randrange(8)
            other = path.with_suffix(".other")
            other.write_bytes(content)
            other.chmod(0o400)
            other.rename(path)
        for version_id in list(store.states)[-4:]:
            with store.fresh() as fresh:
                assert read(fresh, version_id) == store.states[version_id], version_id
        child.report(len(images))


def store_made_again(child: Child, root: str, format_version: int) -> None:
    """The checkpoint is deleted and another query makes one under its path, while there are images of the first."""
    for life in range(3):
        store = Store(root, format_version)
        for step in range(9):
            store.commit(f"{life} {step}")
            store.provider.do_maintenance()
        store.provider.close()
        for version_id in list(store.states)[-4:]:
            with store.fresh() as fresh:
                assert read(fresh, version_id) == store.states[version_id], (life, version_id)
        child.report(len(list(Path(root, "images").glob("*/*.image"))))
        shutil.rmtree(Path(root, "checkpoint"))


def outrun_commits(child: Child, root: str, format_version: int) -> None:
    """Another provider commits the version that this one has just committed: V1 has one file, V2 has both."""
    store = Store(root, format_version)
    store.commit("first")
    with store.fresh() as other:
        for number in range(6):
            tip, base = store.tip, store.states[store.tip]
            results = {}
            for tag, provider in (("a", store.provider), ("b", other)):
                writer = provider.get_store(*tip)
                put(writer, updated(base, f"{number} {tag}")[1])
                info = writer.commit()
                results[info.version, info.checkpoint_unique_id] = updated(base, f"{number} {tag}")[0]
            assert len(results) == (1 if format_version == 1 else 2)
            for version_id, content in results.items():
                for provider in (store.provider, other):
                    assert read(provider, version_id) == content, (number, version_id)
                    with provider.get_store(*version_id) as writer:
                        assert dict(writer.iterator()) == content
            store.states |= results
            store.tip = list(results)[-1]
            child.report(number)
            store.provider.do_maintenance()
            store.check()
