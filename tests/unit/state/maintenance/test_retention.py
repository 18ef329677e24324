"""What the clean-up deletes and what it keeps, on the real local filesystem."""

import logging
import uuid

import pytest

from hdfsstore.errors import CorruptFileError, StateStoreError
from hdfsstore.fs.local_files import LocalFileManager
from hdfsstore.state.maintenance import retention
from hdfsstore.state.maintenance.retention import Retention, owned
from hdfsstore.state.metrics import MaintenanceMetrics

A, B, C = (str(uuid.UUID(int=i)) for i in (10, 11, 12))


def name(version, unique_id=None, kind="delta"):
    return f"{version}_{unique_id}.{kind}" if unique_id else f"{version}.{kind}"


class Folder:
    """A store's folder; `lineages` are what the deltas' headers say, which are no files of their own here."""

    def __init__(self, path, keep=2):
        self.path = path
        self.metrics = MaintenanceMetrics()
        self.lineages = {}
        self.damaged = set()
        self.verified = []
        self.retention = self.again(keep)

    def again(self, keep):
        """Another provider on the same folder."""
        return Retention(LocalFileManager(), str(self.path), keep, self.read_lineage, self.verify, self.metrics)

    def add(self, *names):
        for each in names:
            (self.path / each).write_bytes(b"x")

    def read_lineage(self, version_id):
        if not (self.path / name(*version_id)).exists():
            raise FileNotFoundError(name(*version_id))
        if version_id in self.damaged:
            raise CorruptFileError("not a lineage", name(*version_id))
        return self.lineages[version_id]

    def verify(self, version_id):
        self.verified.append(version_id)
        if version_id in self.damaged:
            raise CorruptFileError("damaged", name(*version_id, kind="snapshot"))

    def left(self):
        return {path.name for path in self.path.iterdir()}

    def chain(self, versions, unique_id=A, base=None):
        """Deltas of one attempt each; every header goes back to `base`, else to the first of them."""
        versions = list(versions)
        for version in versions:
            self.add(name(version, unique_id))
            first = versions[0] if base is None else base
            self.lineages[version, unique_id] = [(v, unique_id) for v in range(first, version)]


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path)


def deltas(*versions, unique_id=None):
    return {name(version, unique_id) for version in versions}


class TestNames:
    @pytest.mark.parametrize(
        ("text", "version", "unique_id", "kind"),
        [
            ("12.delta", 12, None, "delta"),
            ("12.snapshot", 12, None, "snapshot"),
            (f"12_{A}.delta", 12, A, "delta"),
            (f"12_{A}.snapshot", 12, A, "snapshot"),
            (".12.delta.crc", 12, None, "delta"),
            (f"12_{A}.snapshot.crc", 12, A, "snapshot"),
            (f".12_{A}.snapshot.crc.crc", 12, A, "snapshot"),
        ],
    )
    def test_files_and_what_lies_beside_them(self, text, version, unique_id, kind):
        file = owned(text)
        assert (file.id, file.kind, file.temporary) == ((version, unique_id), kind, False)
        assert file.name == name(version, unique_id, kind)

    @pytest.mark.parametrize("inner", ["12.delta", f"12_{A}.snapshot", "12.delta.crc"])
    def test_temporary_files_and_what_lies_beside_them(self, inner):
        temporary = f".{inner}.{B}.tmp"
        for text in (temporary, f".{temporary}.crc"):
            file = owned(text)
            assert file.temporary
            assert file.id[0] == 12
        assert owned(temporary).name == temporary

    @pytest.mark.parametrize(
        "text",
        [
            "metadata",
            "12.changelog",
            "12.zip",
            "012.delta",
            "-1.delta",
            "0.delta",
            "12_backup.delta",
            f"12_{A.upper()}x.delta",
            "12.delta.bak",
            "12.delta.tmp",
            ".12.delta.tmp",
            f".metadata.{A}.tmp",
            "copy of 12.delta",
            "12.DELTA",
            ".crc",
            "..crc",
            ".crc.crc",
        ],
    )
    def test_strangers(self, text):
        assert owned(text) is None


class TestVersion1:
    def test_what_the_oldest_retained_version_does_not_need(self, folder):
        folder.add(*deltas(*range(1, 11)), name(4, kind="snapshot"), name(8, kind="snapshot"))
        folder.retention.run((9, None), ())  # R = 7, which is snapshot 4 and the deltas 5 to 7
        assert folder.left() == deltas(*range(4, 11)) | {"4.snapshot", "8.snapshot"}
        assert folder.metrics.files_deleted == 3
        folder.retention.run((10, None), ())  # R = 8, a snapshot
        assert folder.left() == deltas(8, 9, 10) | {"8.snapshot"}

    def test_as_many_versions_as_spark_keeps(self, folder):
        """Spark keeps from (newest file) - min_versions_to_retain; the newest file is that of C + 1."""
        folder = Folder(folder.path, keep=3)
        folder.add(*deltas(*range(1, 11)), *(name(v, kind="snapshot") for v in range(1, 11)))
        folder.retention.run((9, None), ())
        assert min(int(file.split(".")[0]) for file in folder.left()) == 6

    def test_without_a_snapshot_everything_is_needed(self, folder):
        folder.add(*deltas(*range(1, 11)))
        folder.retention.run((10, None), ())
        assert folder.left() == deltas(*range(1, 11))
        assert folder.metrics.cleanups_put_off == 0

    def test_checksum_files_go_along(self, folder):
        folder.add(*deltas(*range(1, 6)), "3.snapshot", ".1.delta.crc", "1.delta.crc", ".1.delta.crc.crc")
        folder.add(".3.snapshot.crc", "3.delta.crc", ".2.snapshot.crc")  # the last one's snapshot was deleted by Spark
        folder.retention.run((5, None), ())
        assert folder.left() == deltas(3, 4, 5) | {"3.snapshot", ".3.snapshot.crc", "3.delta.crc"}

    def test_leftovers_of_writers_that_crashed(self, folder):
        folder.add(*deltas(*range(1, 7)), "3.snapshot", *(f".{v}.delta.{A}.tmp" for v in range(1, 8)))
        folder.add(f"..2.delta.{A}.tmp.crc", f"..6.delta.{A}.tmp.crc")
        folder.retention.run((6, None), ())  # R = 4
        assert folder.left() == (
            deltas(3, 4, 5, 6) | {"3.snapshot", f"..6.delta.{A}.tmp.crc"} | {f".{v}.delta.{A}.tmp" for v in (5, 6, 7)}
        )

    def test_nothing_else_is_touched(self, folder):
        strangers = {"notes.txt", "1.zip", "1.delta.bak", "01.delta", ".hidden", "1_x.delta", f".notes.txt.{A}.tmp"}
        folder.add(*strangers, *deltas(*range(1, 6)), "4.snapshot")
        (folder.path / "2.delta").unlink()
        (folder.path / "2.delta").mkdir()
        folder.retention.run((6, None), ())
        assert folder.left() == strangers | {"2.delta", "4.delta", "5.delta", "4.snapshot"}

    @pytest.mark.parametrize("missing", [5, 6])
    def test_nothing_is_deleted_where_the_oldest_retained_version_is_not_whole(self, folder, caplog, missing):
        folder.add(*deltas(*range(1, 9)), "4.snapshot")
        (folder.path / name(missing)).unlink()
        before = folder.left()
        with caplog.at_level(logging.WARNING):
            folder.retention.run((8, None), ())
        assert folder.left() == before
        assert folder.metrics.cleanups_put_off == 1
        assert f"{missing}.delta is missing" in caplog.text

    def test_nothing_is_deleted_on_the_word_of_a_damaged_snapshot(self, folder, caplog):
        folder.add(*deltas(*range(1, 9)), "2.snapshot", "5.snapshot")
        folder.damaged = {(5, None)}
        before = folder.left()
        with caplog.at_level(logging.WARNING):
            folder.retention.run((8, None), ())
        assert folder.left() == before
        assert "5.snapshot" in caplog.text
        assert folder.verified == [(5, None)]

    def test_a_snapshot_of_ones_own_is_not_read(self, folder):
        folder.add(*deltas(*range(1, 9)), "5.snapshot")
        folder.retention.note_snapshot((5, None))
        folder.retention.run((8, None), ())
        assert folder.verified == []
        assert folder.left() == deltas(5, 6, 7, 8) | {"5.snapshot"}

    def test_another_ones_snapshot_is_read_once(self, folder):
        folder.add(*deltas(*range(1, 12)), "5.snapshot")
        for version in (8, 9, 10, 11):
            folder.retention.run((version, None), ())
        assert folder.verified == [(5, None)]

    def test_ones_own_snapshot_after_another_ones(self, folder):
        folder.add(*deltas(*range(1, 12)), "5.snapshot", "8.snapshot")
        folder.retention.note_snapshot((8, None))
        for version in (8, 9, 10, 11):
            folder.retention.run((version, None), ())
        assert folder.verified == [(5, None)]
        assert folder.left() == deltas(8, 9, 10, 11) | {"8.snapshot"}

    def test_a_query_that_was_set_back_keeps_what_it_writes_now(self, folder):
        folder.add(*deltas(*range(1, 21)), *(name(v, kind="snapshot") for v in (2, 4, 6, 8, 10, 18)))
        folder.retention.run((20, None), ())
        assert min(int(file.split(".")[0]) for file in folder.left()) == 18
        folder.add(*deltas(*range(5, 8)), "4.snapshot")
        folder.retention.run((5, None), ())
        assert {"4.snapshot", "5.delta", "6.delta", "7.delta"} <= folder.left()

    def test_an_empty_folder(self, folder):
        folder.retention.run((8, None), ())
        assert folder.left() == set()


class TestUniqueIds:
    def test_what_the_oldest_retained_version_does_not_need(self, folder):
        folder.chain(range(1, 11))
        folder.add(name(4, A, "snapshot"), name(8, A, "snapshot"))
        folder.retention.run((9, A), [(8, A)])
        assert folder.left() == deltas(*range(4, 11), unique_id=A) | {name(v, A, "snapshot") for v in (4, 8)}

    def test_losing_attempts(self, folder):
        """Version 6 of B lost, and so its snapshot does not count; one above R may still be asked for."""
        folder.chain(range(1, 10))
        folder.add(name(4, A, "snapshot"), name(3, B), name(6, B), name(6, B, "snapshot"), name(8, B), name(4, B))
        folder.retention.run((8, A), [(7, A)])  # R = 6
        kept = deltas(*range(4, 10), unique_id=A) | {name(4, A, "snapshot"), name(8, B)}
        assert folder.left() == kept

    def test_whichever_ids_the_chain_goes_through(self, folder):
        """Each version by another executor, each knowing only the version before; the base is far below."""
        ids = {v: str(uuid.UUID(int=v)) for v in range(1, 13)}
        for version, unique_id in ids.items():
            folder.add(name(version, unique_id), name(version, B))
            folder.lineages[version, unique_id] = [(version - 1, ids[version - 1])] if version > 1 else []
        folder.add(name(3, ids[3], "snapshot"), name(5, B, "snapshot"))
        folder.retention.run((10, ids[10]), [(9, ids[9])])
        assert folder.left() == (
            {name(v, ids[v]) for v in range(3, 13)}
            | {name(3, ids[3], "snapshot")}
            | {name(v, B) for v in (9, 10, 11, 12)}
        )

    def test_the_headers_are_read_once(self, folder):
        read = []
        whole = folder.read_lineage
        folder.retention._read_lineage = lambda item: read.append(item) or whole(item)
        folder.chain(range(1, 31))
        folder.add(name(4, A, "snapshot"))
        folder.retention.run((20, A), [(19, A)])
        assert read == [(19, A)]
        for version in range(21, 30):
            folder.retention.run((version, A), [(version - 1, A)])
        assert read == [(19, A)]

    def test_what_was_known_before_a_gap_is_not_read_again(self, tmp_path):
        """Other processes had the partition in between."""
        folder = Folder(tmp_path, keep=10)
        read = []
        whole = folder.read_lineage
        folder.retention._read_lineage = lambda item: read.append(item) or whole(item)
        for version in range(1, 41):
            folder.chain([version], base=max(1, version - 1))
        folder.add(*(name(version, A, "snapshot") for version in range(5, 41, 5)))
        folder.retention.run((20, A), [(19, A)])
        assert [version for version, _ in read] == list(range(19, 10, -1))
        read.clear()
        folder.retention.run((25, A), [(24, A)])
        assert [version for version, _ in read] == [24, 23, 22, 21]
        assert min(int(file.split("_")[0]) for file in folder.left()) == 15

    def test_what_was_known_before_a_gap_may_have_lost(self, folder):
        """This process knows versions 5 and 6 of A, and a retry has written them again as B."""
        folder.chain(range(1, 7), base=1)
        folder.add(name(1, A, "snapshot"))
        folder.retention.run((6, A), [(v, A) for v in range(1, 6)])  # R = 4
        folder.add(name(5, B), name(6, B), *(name(v, C) for v in range(7, 11)))
        folder.lineages |= {(5, B): [(4, A)], (6, B): [(5, B)], (7, C): [(6, B)]}
        folder.lineages |= {(v, C): [(v - 1, C)] for v in range(8, 11)}
        folder.retention.run((10, C), [(9, C)])  # R = 8
        expected = {name(v, A) for v in range(1, 5)} | {name(5, B), name(6, B)} | {name(v, C) for v in range(7, 11)}
        assert folder.left() == expected | {name(1, A, "snapshot")}

    def test_listing_is_rare(self, tmp_path):
        folder = Folder(tmp_path, keep=100)
        folder.chain(range(1, 401))
        for version in range(10, 400, 10):
            folder.add(name(version, A, "snapshot"))
        for version in range(1, 400):
            folder.retention.run((version, A), [(version - 1, A)] if version > 1 else [])
        # R went from 1 to 299, and a tenth of the retained versions is 10.
        assert folder.metrics.listings == 30
        assert min(int(file.split("_")[0]) for file in folder.left()) == 290

    def test_between_two_listings_what_is_known_goes(self, tmp_path):
        """Its own snapshots, and the deltas that lineages name: nothing of it takes a listing."""
        folder = Folder(tmp_path, keep=100)
        folder.chain(range(1, 131))
        folder.retention.run((101, A), [(v, A) for v in range(1, 101)])  # R = 1
        assert folder.metrics.listings == 1
        for version in (2, 5):
            folder.add(name(version, A, "snapshot"))
            folder.retention.note_snapshot((version, A))
        folder.retention.run((106, A), [(v, A) for v in range(5, 106)])
        assert folder.metrics.listings == 1
        assert folder.left() == deltas(*range(5, 131), unique_id=A) | {name(5, A, "snapshot")}

    @pytest.mark.parametrize("problem", ["missing", "damaged"])
    def test_nothing_is_deleted_where_the_ancestors_are_not_certain(self, folder, caplog, problem):
        folder.chain(range(1, 13))
        folder.add(name(4, A, "snapshot"), name(2, B))
        if problem == "missing":
            (folder.path / name(11, A)).unlink()
        else:
            folder.damaged = {(11, A)}
        before = folder.left()
        with caplog.at_level(logging.WARNING):
            folder.retention.run((12, A), [(11, A)])
            folder.retention.run((12, A), [(11, A)])
        assert folder.left() == before
        assert len(caplog.records) == 1, "said once"

    def test_a_snapshot_of_the_right_version_and_the_wrong_id_is_no_base(self, folder):
        folder.chain(range(1, 12))
        folder.add(name(6, B, "snapshot"), name(2, A, "snapshot"))
        folder.retention.run((8, A), [(7, A)])
        assert folder.left() == deltas(*range(2, 12), unique_id=A) | {name(2, A, "snapshot")}

    def test_no_snapshot_at_all(self, folder):
        folder.chain(range(1, 11))
        folder.add(name(3, B))
        folder.retention.run((9, A), [(v, A) for v in range(1, 9)])
        assert folder.left() == deltas(*range(1, 11), unique_id=A)

    def test_a_provider_that_was_restarted_knows_no_less(self, folder):
        folder.chain(range(1, 13))
        folder.add(name(5, A, "snapshot"), name(9, B))
        folder.retention.run((8, A), [(v, A) for v in range(1, 8)])
        assert folder.left() == deltas(*range(5, 13), unique_id=A) | {name(5, A, "snapshot"), name(9, B)}
        folder.again(2).run((11, A), ())
        assert folder.left() == deltas(*range(5, 13), unique_id=A) | {name(5, A, "snapshot")}

    def test_a_lost_executor_cannot_hurt_the_winner(self, folder):
        """It was called for version 8, uploads a snapshot of version 6 late, and cleans up; the winner is at 30, its
        lineages begin at version 1."""
        folder.chain(range(1, 31))
        lost = folder.retention
        folder.add(name(6, A, "snapshot"), name(9, B))
        lost.note_snapshot((6, A))
        lost.run((8, A), [(v, A) for v in range(1, 8)])
        assert folder.left() == deltas(*range(6, 31), unique_id=A) | {name(6, A, "snapshot"), name(9, B)}
        lost.run((8, A), [(v, A) for v in range(1, 8)])
        winner = folder.again(2)
        winner.run((30, A), [(v, A) for v in range(1, 30)])
        assert folder.left() == deltas(*range(6, 31), unique_id=A) | {name(6, A, "snapshot")}

    def test_a_query_that_was_set_back_keeps_what_it_writes_now(self, folder):
        folder.chain(range(1, 21))
        folder.add(name(2, A, "snapshot"))
        folder.retention.run((20, A), [(v, A) for v in range(1, 20)])
        folder.chain(range(6, 9), B)
        for version in (6, 7, 8):
            folder.lineages[version, B] = [(v, A) for v in range(2, 6)] + [(v, B) for v in range(6, version)]
        folder.retention.run((5, A), [(v, A) for v in range(1, 5)])
        assert deltas(6, 7, 8, unique_id=B) <= folder.left()
        folder.retention.run((8, B), folder.lineages[8, B])  # R = 6: now the attempt of A has lost
        assert folder.left() == (
            deltas(2, 3, 4, 5, *range(7, 21), unique_id=A) | deltas(6, 7, 8, unique_id=B) | {name(2, A, "snapshot")}
        )


class TestSwitches:
    def test_from_1_to_2(self, folder):
        """Version 6 is the first with an id, a full snapshot and no delta."""
        folder.add(*deltas(*range(1, 6)), "3.snapshot")
        folder.add(name(6, A, "snapshot"))
        folder.chain(range(7, 13), base=6)
        folder.retention.run((7, A), [(6, A)])  # R = 5, of format 1
        assert folder.left() == (
            deltas(3, 4, 5) | {"3.snapshot", name(6, A, "snapshot")} | deltas(*range(7, 13), unique_id=A)
        )
        folder.retention.run((8, A), [(6, A), (7, A)])  # R = 6
        assert folder.left() == {name(6, A, "snapshot")} | deltas(*range(7, 13), unique_id=A)

    def test_from_2_to_1(self, folder, caplog):
        """Nothing at hand tells which attempt of version 5 won: it is kept until it is retained no more."""
        folder.chain(range(1, 6))
        folder.add(name(3, A, "snapshot"), name(5, B), "6.snapshot", *deltas(*range(7, 13)))
        before = folder.left()
        with caplog.at_level(logging.WARNING):
            folder.retention.run((7, None), ())
        assert folder.left() == before
        assert folder.metrics.cleanups_put_off == 1
        folder.retention.run((8, None), ())
        assert folder.left() == {"6.snapshot"} | deltas(*range(7, 13))

    def test_a_stray_file_without_an_id_does_not_stand_for_the_version(self, folder):
        """Versions 4 to 6 have ids; a delta of format 1 that some writer left there does not make R's chain."""
        folder.add(*deltas(1, 2, 3), "3.snapshot", "4.delta")
        folder.add(name(4, A, "snapshot"))
        folder.chain(range(5, 7), base=4)
        folder.add("7.snapshot", *deltas(8, 9, 10))
        before = folder.left()
        folder.retention.run((6, None), ())  # R = 4
        assert folder.left() == before
        folder.retention.run((9, None), ())  # R = 7
        assert folder.left() == {"7.snapshot"} | deltas(8, 9, 10)

    def test_a_losing_attempt_without_an_id(self, folder):
        folder.chain(range(1, 11))
        folder.add(name(4, A, "snapshot"), *deltas(3, 6, 9), "5.snapshot")
        folder.retention.run((9, A), [(8, A)])
        assert folder.left() == deltas(*range(4, 11), unique_id=A) | {name(4, A, "snapshot"), "9.delta"}

    def test_back_and_forth(self, folder):
        folder.add(*deltas(1, 2))
        folder.add(name(3, A, "snapshot"))
        folder.chain(range(4, 6), base=3)
        folder.add("6.snapshot", *deltas(7, 8))
        folder.add(name(9, B, "snapshot"))
        folder.chain(range(10, 14), B, base=9)
        folder.retention.run((10, B), [(9, B)])  # R = 8, of format 1, on the snapshot 6
        assert folder.left() == (
            {"6.snapshot", name(9, B, "snapshot")} | deltas(7, 8) | deltas(*range(10, 14), unique_id=B)
        )


class TestFailures:
    def test_it_goes_on_where_it_stopped(self, folder, monkeypatch):
        """A kill between two deletions: what is left is whole from some version on, and the next run does the rest."""
        monkeypatch.setattr(retention, "_AT_ONCE", 1)
        folder.add(*deltas(*range(1, 11)), "5.snapshot")
        stop = iter([None, None])

        def step():
            if next(stop, "end") == "end":
                raise StateStoreError("killed")

        with pytest.raises(StateStoreError):
            folder.retention.run((10, None), (), step)
        assert folder.left() == deltas(*range(3, 11)) | {"5.snapshot"}, "the oldest first"
        folder.retention.run((10, None), ())
        assert folder.left() == deltas(*range(5, 11)) | {"5.snapshot"}

    def test_what_somebody_else_has_deleted_is_no_error(self, folder):
        folder = Folder(folder.path, keep=20)
        folder.chain(range(1, 31))
        folder.add(name(4, A, "snapshot"), name(5, A, "snapshot"))
        folder.retention.run((24, A), [(v, A) for v in range(4, 24)])  # R = 4
        for file in deltas(4, unique_id=A) | {name(4, A, "snapshot")}:
            (folder.path / file).unlink()
        folder.retention.run((25, A), [(v, A) for v in range(4, 25)])
        assert folder.metrics.listings == 1
        assert folder.left() == deltas(*range(5, 31), unique_id=A) | {name(5, A, "snapshot")}
