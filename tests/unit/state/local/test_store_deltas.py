"""Deltas on the local disk: kept, found, not trusted, dropped."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from hdfsstore.state.local import store_deltas
from hdfsstore.state.local.image_cache import ImageCache, StoreImages
from hdfsstore.state.local.store_deltas import Collected, StoreDeltas
from tests.support.images import ID, ID2, OTHER, STORE, folder_of, write

PIECES = [b"LZ4Block", bytes(range(256)) * 40, b""]
CONTENT = b"".join(PIECES)


@pytest.fixture
def deltas(images: StoreImages) -> StoreDeltas:
    return StoreDeltas(images.folder)


def names(local_dir: Path) -> list[str]:
    return sorted(path.name for path in local_dir.glob("*/*.delta"))


def path_of(local_dir: Path, version: int, unique_id: str = ID) -> Path:
    return folder_of(local_dir) / f"{version}_{unique_id}.delta"


def test_a_delta_is_found_by_version_and_id(deltas: StoreDeltas, local_dir: Path) -> None:
    deltas.keep((7, ID), PIECES)
    assert deltas.content((7, ID)) == CONTENT
    assert deltas.content((7, ID2)) is None
    assert deltas.content((8, ID)) is None
    assert path_of(local_dir, 7).stat().st_mode & 0o777 == 0o400


def test_another_store_has_deltas_of_its_own(deltas: StoreDeltas, cache: ImageCache) -> None:
    deltas.keep((7, ID), PIECES)
    with cache.store(OTHER) as other:
        assert StoreDeltas(other.folder).content((7, ID)) is None


@pytest.mark.parametrize("at", [0, 5, len(CONTENT) - 1, len(CONTENT), len(CONTENT) + 3])
def test_a_changed_byte_is_seen(deltas: StoreDeltas, local_dir: Path, at: int) -> None:
    deltas.keep((7, ID), PIECES)
    path = path_of(local_dir, 7)
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    rewrite(path, bytes(content))
    assert deltas.content((7, ID)) is None
    assert names(local_dir) == []


@pytest.mark.parametrize("length", [0, 3, 4, 100, len(CONTENT)])
def test_a_cut_delta_is_seen(deltas: StoreDeltas, local_dir: Path, length: int) -> None:
    deltas.keep((7, ID), PIECES)
    path = path_of(local_dir, 7)
    rewrite(path, path.read_bytes()[:length])
    assert deltas.content((7, ID)) is None


def rewrite(path: Path, content: bytes) -> None:
    path.unlink()
    path.write_bytes(content)
    path.chmod(0o400)


def test_a_delta_whose_writer_was_killed_is_not_read(deltas: StoreDeltas, local_dir: Path) -> None:
    deltas.keep((7, ID), PIECES)
    path_of(local_dir, 7).chmod(0o600)
    assert deltas.content((7, ID)) is None


def test_a_symlink_is_not_followed(deltas: StoreDeltas, local_dir: Path, tmp_path: Path) -> None:
    deltas.keep((7, ID), PIECES)
    path = path_of(local_dir, 7)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert deltas.content((7, ID)) is None


def test_deltas_go_with_the_images_that_follow_them(deltas: StoreDeltas, images: StoreImages, local_dir: Path) -> None:
    for version in range(1, 7):
        deltas.keep((version, ID), PIECES)
    for version in (2, 4, 5):
        write(images, version, ID)
    images.drop_others(5, ID, kept=1, first=(2, ID))
    assert names(local_dir) == [f"{version}_{ID}.delta" for version in (3, 4, 5, 6)]
    images.drop_others(5, ID, kept=0)
    assert names(local_dir) == [f"6_{ID}.delta"]


def test_without_images_only_the_newest_are_kept(deltas: StoreDeltas, local_dir: Path) -> None:
    for version in range(1, 61):
        deltas.keep((version, ID), PIECES)
    assert {int(name.partition("_")[0]) for name in names(local_dir)} == set(range(11, 61))


def test_those_of_a_checkpoint_that_was_made_anew_are_deleted(deltas: StoreDeltas, local_dir: Path) -> None:
    for version in range(951, 1001):
        deltas.keep((version, ID2), PIECES)
    for version in range(1, 4):
        deltas.keep((version, ID), PIECES)
    assert names(local_dir) == [f"{version}_{ID}.delta" for version in (1, 2, 3)]


def test_one_of_a_late_attempt_deletes_none_of_those_that_are_needed(deltas: StoreDeltas, local_dir: Path) -> None:
    for version in range(1, 11):
        deltas.keep((version, ID), PIECES)
    deltas.keep((2, ID2), PIECES)
    assert {(int(name.partition("_")[0]), ID2 in name) for name in names(local_dir)} == {
        *((version, False) for version in range(1, 11)),
        (2, True),
    }


def test_the_budget_holds_with_deltas(local_dir: Path) -> None:
    with ImageCache(str(local_dir), 3 * len(CONTENT)).store(STORE) as limited:
        deltas = StoreDeltas(limited.folder)
        for version in range(1, 9):
            deltas.keep((version, ID), PIECES)
            assert sum(path.stat().st_size for path in local_dir.rglob("*") if path.is_file()) <= 3 * len(CONTENT)
        assert deltas.content((8, ID)) == CONTENT
        deltas.keep((9, ID), [CONTENT] * 3)
        assert deltas.content((9, ID)) is None


def test_without_a_folder_there_is_none(local_dir: Path) -> None:
    with ImageCache(str(local_dir), 0).store(STORE) as none:
        deltas = StoreDeltas(none.folder)
        deltas.keep((7, ID), PIECES)
        assert deltas.content((7, ID)) is None
    assert not local_dir.exists()


def test_a_full_disk_leaves_nothing(
    deltas: StoreDeltas, local_dir: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(file: int, data: memoryview) -> None:
        os.write(file, data[:3])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store_deltas, "write_all", full)
    deltas.keep((7, ID), PIECES)
    assert names(local_dir) == []
    assert "No space left on device" in caplog.text


def test_deltas_of_a_store_that_nobody_uses_are_deleted(cache: ImageCache, local_dir: Path) -> None:
    with cache.store(STORE) as images:
        StoreDeltas(images.folder).keep((7, ID), PIECES)
    cache.clean(unused_seconds=0)
    assert list(local_dir.glob("*/*")) == []


@pytest.mark.parametrize(("sizes", "kept"), [([], True), ([1, 16 << 20], False), ([16 << 20], True)])
def test_pieces_are_collected_up_to_a_size(sizes: list[int], kept: bool) -> None:
    def pieces() -> Iterator[bytes]:
        for size in sizes:
            yield bytes(size)

    collected = Collected(pieces())
    assert [len(piece) for piece in collected] == sizes
    assert collected.pieces == ([bytes(size) for size in sizes] if kept else None)
