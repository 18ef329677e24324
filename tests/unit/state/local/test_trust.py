"""What the cache of images does not trust, and that stores go on without it."""

from __future__ import annotations

import errno
import logging
import os
import random
import resource
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path

import pytest

from hdfsstore._cext.versioned_map import Image
from hdfsstore.errors import ImageDamagedError
from hdfsstore.state.indexes import Indexes
from hdfsstore.state.local.image_cache import ImageCache, StoreImages
from hdfsstore.state.store_id import StateStoreId
from tests.support.images import (
    GIB,
    ID,
    ID2,
    NOBODY,
    OTHER,
    STORE,
    files,
    find,
    folder_of,
    image_of,
    in_use,
    rows,
    rows_of,
    said,
    start,
    write,
)

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")


# What is not trusted


def corrupt(content: bytes, at: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 0x10]) + content[at + 1 :]


def replace(file: Path, content: bytes, mode: int = 0o400) -> None:
    """Puts other content in place of an image by rename: a mapped one must not be cut."""
    other = file.with_name("other")
    other.write_bytes(content)
    other.chmod(mode)
    other.rename(file)


def test_damage_at_any_byte_is_found_and_the_image_built_anew(local_dir: Path, images: StoreImages) -> None:
    write(images, 1, count=2000)
    [file] = local_dir.glob("*/*.image")
    content = file.read_bytes()
    chosen = random.Random(4)
    places = sorted({*range(0, 200, 7), *(chosen.randrange(len(content)) for _ in range(150)), len(content) - 1})
    for at in places:
        replace(file, corrupt(content, at))
        assert_found(images, file)
        image = write(images, 1, count=2000)
        assert rows_of(image) == rows(2000, "1")


def assert_found(images: StoreImages, file: Path) -> None:
    """The damage is found: at once, or when what is damaged is read. The file is deleted."""
    image = find(images, 1)
    if image is not None:
        with pytest.raises(ImageDamagedError) as damage:
            image.verify()
        assert damage.value.path == str(file)
        images.drop(1, ID)
    assert not file.exists()


def test_pages_that_never_came_to_the_disk_are_found(local_dir: Path, images: StoreImages) -> None:
    """Images are not synced: after a power cut one may have its name, mode and length, and zeros in places."""
    write(images, 1, count=2000)
    [file] = local_dir.glob("*/*.image")
    content = file.read_bytes()
    pages = range(0, len(content), 4096)
    torn = 0
    for first, end in [*((at, at + 4096) for at in pages), *((at, len(content)) for at in pages)]:
        lost = content[first:end]
        if lost.strip(b"\0"):
            replace(file, content[:first] + bytes(len(lost)) + content[end:])
            assert_found(images, file)
            torn += 1
    assert torn > len(pages)


@pytest.mark.parametrize("cut", [0, 1, 8, 40, -4096, -1])
def test_a_cut_image_is_deleted(
    local_dir: Path, images: StoreImages, cut: int, caplog: pytest.LogCaptureFixture
) -> None:
    write(images, 1, count=2000)
    [file] = local_dir.glob("*/*.image")
    replace(file, file.read_bytes()[:cut])
    assert find(images, 1) is None
    assert str(file) in caplog.text
    assert not file.exists()
    write(images, 1)


def test_bytes_that_were_added_are_found(local_dir: Path, images: StoreImages) -> None:
    write(images, 1)
    [file] = local_dir.glob("*/*.image")
    replace(file, file.read_bytes() + b"\0")
    assert find(images, 1) is None
    assert not file.exists()


@pytest.mark.parametrize(
    ("version", "unique_id", "store"), [(2, ID, STORE), (1, ID2, STORE), (1, None, STORE), (1, ID, OTHER)]
)
def test_an_image_under_a_wrong_name_is_deleted(
    local_dir: Path, cache: ImageCache, images: StoreImages, version: int, unique_id: str | None, store: StateStoreId
) -> None:
    write(images, 1)
    [file] = local_dir.glob("*/*.image")
    with cache.store(store) as its:
        name = f"{version}.image" if unique_id is None else f"{version}_{unique_id}.image"
        file.rename(folder_of(local_dir, store) / name)
        assert its.names() == [(version, unique_id)]
        assert find(its, version, unique_id) is None
        assert its.names() == []


def test_metadata_that_is_not_ours_is_refused(local_dir: Path, images: StoreImages) -> None:
    write(images, 1)
    [file] = local_dir.glob("*/*.image")
    for metadata in (b"", b"[]", b"{}", b"7", b"\xff", b'{"store":{},"version":1,"id":null,"metadata":{}}'):
        replace(file, b"".join(bytes(part) for part in image_of(rows(3)).parts(metadata)))
        assert find(images, 1) is None
        assert not file.exists()


def test_an_image_of_an_earlier_format_is_passed_over_and_built_anew(
    local_dir: Path, images: StoreImages, caplog: pytest.LogCaptureFixture
) -> None:
    write(images, 1)
    [file] = local_dir.glob("*/*.image")
    replace(file, file.read_bytes()[:8] + b"\2" + file.read_bytes()[9:])
    assert find(images, 1) is None
    assert "format version 2" in caplog.text
    assert not file.exists()
    assert rows_of(write(images, 1)) == rows(100, "1")


def test_an_image_without_the_index_by_prefix_that_a_store_needs_is_built_anew(
    cache: ImageCache, images: StoreImages
) -> None:
    write(images, 1)
    with cache.store(STORE, Indexes(prefix=(2, b"\0"), timeout_offset=None)) as its:
        assert find(its, 1) is None
        image = Image.empty(row_checksums=False, prefix=(2, b"\0"))
        assert its.write(1, ID, image, {}) is not None
        found = find(its, 1)
        assert found is not None
        assert found.prefix == (2, b"\0")
    with cache.store(STORE, Indexes(prefix=(2, b"\0\0"), timeout_offset=None)) as its:
        assert find(its, 1) is None


def test_a_symlink_is_not_followed(tmp_path: Path, local_dir: Path, images: StoreImages) -> None:
    write(images, 1)
    [file] = local_dir.glob("*/*.image")
    target = file.rename(tmp_path / "target")
    file.symlink_to(target)
    assert find(images, 1) is None
    assert not file.is_symlink()
    assert target.exists()
    file.symlink_to(target)
    before = target.read_bytes()
    write(images, 1, count=3)
    assert not file.is_symlink()
    assert target.read_bytes() == before


@pytest.mark.parametrize("mode", [0o600, 0o444, 0o440, 0o000])
def test_an_image_that_others_may_touch_is_deleted(local_dir: Path, images: StoreImages, mode: int) -> None:
    write(images, 1)
    [file] = local_dir.glob("*/*.image")
    file.chmod(mode)
    assert find(images, 1) is None
    assert not file.exists()


@as_root
def test_an_image_of_another_user_is_deleted(local_dir: Path, images: StoreImages) -> None:
    write(images, 1)
    [file] = local_dir.glob("*/*.image")
    os.chown(file, NOBODY, NOBODY)
    assert find(images, 1) is None
    assert not file.exists()


def test_what_is_no_file_is_passed_over(local_dir: Path, images: StoreImages) -> None:
    write(images, 1)
    [file] = local_dir.glob("*/*.image")
    file.unlink()
    os.mkfifo(file)
    assert find(images, 1) is None
    assert not file.exists()
    file.mkdir()
    assert find(images, 1) is None
    assert images.write(1, ID, image_of(rows(3)), {}) is None
    assert file.is_dir()


# Where there is no cache


def no_cache(local_dir: Path, caplog: pytest.LogCaptureFixture) -> str:
    """Uses a cache there, which goes on without; returns the one warning."""
    caplog.clear()
    for _ in range(2):
        cache = ImageCache(str(local_dir), GIB)
        with caplog.at_level(logging.WARNING), cache.store(STORE) as images:
            assert images.write(1, ID, image_of(rows(3)), {}) is None
            assert images.newest([(1, ID)]) is None
            assert images.names() == []
            images.drop(1, ID)
            cache.clean(0)
    [record] = caplog.records
    return record.getMessage()


def test_a_path_below_a_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_bytes(b"content")
    assert "Not a directory" in no_cache(tmp_path / "file", caplog)
    assert "Not a directory" in no_cache(tmp_path / "file" / "images", caplog)
    assert (tmp_path / "file").read_bytes() == b"content"


def test_a_symlink_as_root(tmp_path: Path, local_dir: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    local_dir.symlink_to(tmp_path / "elsewhere")
    assert str(local_dir) in no_cache(local_dir, caplog)
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_symlink_in_place_of_a_stores_folder(
    tmp_path: Path, local_dir: Path, cache: ImageCache, caplog: pytest.LogCaptureFixture
) -> None:
    with cache.store(STORE) as images:
        write(images, 1)
    folder = folder_of(local_dir)
    elsewhere = folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(elsewhere)
    before = sorted(path.name for path in elsewhere.iterdir())
    no_cache(local_dir, caplog)
    assert sorted(path.name for path in elsewhere.iterdir()) == before


@pytest.mark.parametrize("mode", [0o750, 0o701, 0o777])
def test_a_root_that_others_may_enter(local_dir: Path, mode: int, caplog: pytest.LogCaptureFixture) -> None:
    local_dir.mkdir()
    local_dir.chmod(mode)
    assert f"{mode:04o}" in no_cache(local_dir, caplog)
    assert list(local_dir.iterdir()) == []


@as_root
def test_a_root_of_another_user(local_dir: Path, caplog: pytest.LogCaptureFixture) -> None:
    local_dir.mkdir(mode=0o700)
    os.chown(local_dir, NOBODY, NOBODY)
    assert f"user {NOBODY}" in no_cache(local_dir, caplog)
    assert list(local_dir.iterdir()) == []


@as_root
def test_a_folder_without_the_right_to_write() -> None:
    code = """
        os.setgid(65534); os.setuid(65534)
        logging.basicConfig(level=logging.WARNING)
        with store(sys.argv[1]) as images:
            assert images.write(1, None, image_of(rows(3)), {}) is None
            assert images.newest([(1, None)]) is None
    """
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        _, warnings = said(start(code, f"{folder}/images"))
    assert warnings.count("WARNING") == 1
    assert "Permission denied" in warnings


def test_a_full_disk_leaves_nothing_and_is_tried_again(
    local_dir: Path, images: StoreImages, caplog: pytest.LogCaptureFixture
) -> None:
    """A limit of the size of files, which a write meets as it meets the end of the disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    try:
        with caplog.at_level(logging.WARNING):
            for _ in range(2):
                assert images.write(1, ID, image_of(rows(1000)), {}) is None
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert caplog.text.count("File too large") == 1
    assert files(local_dir) == set()
    write(images, 1, count=1000)


def test_on_a_full_disk_a_new_image_takes_the_place_of_the_old_ones(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(disk)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a small filesystem")
    try:
        with ImageCache(str(disk / "images"), 1 << 30).store(STORE) as images:
            for version in range(1, 12):
                written = images.write(version, ID, image_of(rows(1000)), {})
                assert written is not None
                assert rows_of(written) == rows(1000)
                del written
            assert len(images.names()) < 11
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


def test_a_folder_that_was_deleted_is_made_again(local_dir: Path, images: StoreImages) -> None:
    image = write(images, 1)
    subprocess.run(["rm", "-rf", str(local_dir)], check=True)
    assert find(images, 1) is None
    assert rows_of(image) == rows(100, "1")
    write(images, 2)
    assert images.names() == [(2, ID)]
    assert in_use(local_dir)


@pytest.mark.parametrize("removed", ["all", "of the store"])
def test_a_folder_that_is_deleted_while_an_image_is_written(
    removed: str, local_dir: Path, images: StoreImages, caplog: pytest.LogCaptureFixture
) -> None:
    folder = local_dir if removed == "all" else folder_of(local_dir)

    def step() -> None:
        shutil.rmtree(folder, ignore_errors=True)

    with caplog.at_level(logging.WARNING):
        assert images.write(1, ID, image_of(rows(100)), {}, step=step) is None
    [record] = caplog.records
    assert f"{local_dir}: somebody has removed this folder" in record.message
    assert "Give a local_dir" not in record.message
    write(images, 1)
    assert images.names() == [(1, ID)]


def test_without_a_folder_for_temporary_files(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gettempdir() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", gettempdir)
    monkeypatch.setattr(ImageCache, "_warned", set())
    with caplog.at_level(logging.WARNING), ImageCache(None, GIB).store(STORE) as images:
        assert images.names() == []
    [record] = caplog.records
    assert "Give a local_dir" in record.message


def test_without_local_dir_the_user_has_a_folder_of_its_own(tmp_path: Path) -> None:
    said(start("with store(None) as images: images.write(1, None, image_of(rows(3)), {})", TMPDIR=str(tmp_path)))
    own = tmp_path / f"hdfsstore-{os.geteuid()}"
    assert files(own) == {"1.image"}
    assert stat.S_IMODE(own.stat().st_mode) == 0o700
