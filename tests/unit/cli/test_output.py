import csv
import gzip
import io
import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer

from hdfsstore import StateStoreError
from hdfsstore.cli.output import choose_format, numbered, write_rows
from hdfsstore.cli.output_file import Format

VALUE = pa.StructArray.from_arrays(
    [
        pa.array([1, None, 3]),
        pa.array(['a "quoted", one', "", None]),
        pa.array([(14, 3, 1_000_000_000), None, (0, 0, 0)], pa.month_day_nano_interval()),
        pa.array([{"x": [1.5]}, None, {"x": []}]),
    ],
    names=["n", "s", "span", "nested"],
)
# The key of an aggregation without groups has no fields.
ROWS = pa.record_batch({"key": pa.array([{}, {}, {}], pa.struct([])), "value": VALUE})


def written(format: Format, path: Path, rows: pa.RecordBatch = ROWS, limit: int = 0) -> bytes:
    write_rows(rows.schema, [rows.slice(0, 1), rows.slice(1)], format, path, limit)
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    return path.read_bytes()


def test_csv(tmp_path: Path) -> None:
    text = written(Format.CSV, tmp_path / "rows.csv").decode()
    assert text == (
        'value.n,value.s,value.span,value.nested.x\r\n1,"a ""quoted"", one",P1Y2M3DT1S,[1.5]\r\n,"",,\r\n3,,PT0S,[]\r\n'
    )
    assert len(list(csv.reader(io.StringIO(text)))) == 4


@pytest.mark.parametrize(("format", "name"), [(Format.CSV, "rows.csv"), (Format.JSON, "rows.jsonl")])
def test_text_is_compressed_where_the_name_says_so(format: Format, name: str, tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    plain = written(format, tmp_path / "plain" / name)
    for suffix in ("gz", "zst"):
        (tmp_path / suffix).mkdir()
        path = tmp_path / suffix / f"{name}.{suffix}"
        assert choose_format(None, False, path) == format
        packed = written(format, path)
        read = gzip.decompress(packed) if suffix == "gz" else pa.input_stream(path, compression="zstd").read()
        assert read == plain


@pytest.mark.parametrize("name", ["rows", "rows.txt", "rows.gz", "rows.parquet.gz", "rows.arrow.zst"])
def test_a_name_that_does_not_tell_the_format_is_refused(name: str) -> None:
    with pytest.raises(typer.BadParameter, match=r"does not tell the format|compressed inside"):
        choose_format(None, False, Path(name))


def test_errors_name_the_file_that_was_asked_for(tmp_path: Path) -> None:
    for output in (tmp_path / "nowhere" / "rows.csv", tmp_path / "file" / "rows.csv.gz"):
        (tmp_path / "file").write_bytes(b"")
        with pytest.raises(StateStoreError, match=rf"^{output}: the file cannot be written") as caught:
            write_rows(ROWS.schema, [ROWS], Format.CSV, output)
        assert ".tmp" not in str(caught.value)


def test_json(tmp_path: Path) -> None:
    lines = written(Format.JSON, tmp_path / "rows.json").decode().splitlines()
    assert [json.loads(line) for line in lines] == [
        {"key": {}, "value": {"n": 1, "s": 'a "quoted", one', "span": "P1Y2M3DT1S", "nested": {"x": [1.5]}}},
        {"key": {}, "value": {"n": None, "s": "", "span": None, "nested": None}},
        {"key": {}, "value": {"n": 3, "s": None, "span": "PT0S", "nested": {"x": []}}},
    ]


def test_parquet_holds_what_it_can(tmp_path: Path) -> None:
    written(Format.PARQUET, tmp_path / "rows.parquet")
    table = pq.read_table(tmp_path / "rows.parquet")
    assert table["key"].null_count == 3
    assert table["value"].to_pylist() == [
        {"n": 1, "s": 'a "quoted", one', "span": "P1Y2M3DT1S", "nested": {"x": [1.5]}},
        {"n": None, "s": "", "span": None, "nested": None},
        {"n": 3, "s": None, "span": "PT0S", "nested": {"x": []}},
    ]


def test_parquet_holds_intervals_and_empty_structs_on_any_level(tmp_path: Path) -> None:
    span = pa.month_day_nano_interval()
    lists = pa.array([[None], [(1, 0, 0)], None, [], [None, (0, 1, 0)]], pa.list_(span))
    maps = pa.array([[], [("a", [(1, 0, 0)])], None, [("b", None)], [("c", [])]], pa.map_(pa.string(), pa.list_(span)))
    empty = pa.array([[{}], [], None, [None], [{}, {}]], pa.list_(pa.struct([])))
    rows = pa.record_batch({"lists": lists, "maps": maps, "empty": empty}).slice(1)
    written(Format.PARQUET, tmp_path / "rows.parquet", rows)
    table = pq.read_table(tmp_path / "rows.parquet")
    assert table["lists"].to_pylist() == [["P1M"], None, [], [None, "P1D"]]
    assert table["maps"].to_pylist() == [[("a", ["P1M"])], None, [("b", None)], [("c", [])]]
    assert table["empty"].to_pylist() == [[], None, [None], [None, None]]


def test_arrow_file_is_equal_to_what_was_written(tmp_path: Path) -> None:
    written(Format.ARROW, tmp_path / "rows.arrow")
    assert pa.ipc.open_file(tmp_path / "rows.arrow").read_all() == pa.table(ROWS)


def test_arrow_into_a_pipe_is_a_stream(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    write_rows(ROWS.schema, [ROWS], Format.ARROW)
    assert pa.ipc.open_stream(capfdbinary.readouterr().out).read_all() == pa.table(ROWS)


def test_table_shows_every_value_and_no_control_character(tmp_path: Path) -> None:
    rows = pa.record_batch({"s": pa.array(["plain [bold]", "\x1b[31mred", None]), "n": pa.array([1, 22, 333])})
    text = written(Format.TABLE, tmp_path / "rows.txt", rows).decode()
    assert "plain [bold]     1" in text
    assert r"\x1b[31mred     22" in text
    assert "null           333" in text
    assert "\x1b" not in text


@pytest.mark.parametrize(("limit", "lines"), [(0, 3), (1, 1), (2, 2), (3, 3), (4, 3)])
def test_limit(limit: int, lines: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert written(Format.JSON, tmp_path / "rows.json", limit=limit).count(b"\n") == lines
    said = f"The first {limit} rows; --limit 0 shows all." in capsys.readouterr().err
    assert said == (0 < limit < 3)


def test_a_limit_stops_the_reading(tmp_path: Path) -> None:
    closed = []

    def endless() -> Iterator[pa.RecordBatch]:
        try:
            while True:
                yield ROWS
        finally:
            closed.append(True)

    write_rows(ROWS.schema, endless(), Format.JSON, tmp_path / "rows.json", 4)
    assert closed == [True]


@pytest.mark.parametrize("format", list(Format))
def test_no_rows_are_a_file_all_the_same(format: Format, tmp_path: Path) -> None:
    write_rows(ROWS.schema, [], format, tmp_path / "rows")
    assert (tmp_path / "rows").exists()


@pytest.mark.parametrize("format", list(Format))
def test_a_failure_leaves_the_file_as_it_was(format: Format, tmp_path: Path) -> None:
    def failing() -> Iterator[pa.RecordBatch]:
        yield ROWS
        raise OSError("gone")

    (tmp_path / "rows").write_text("as it was")
    with pytest.raises(OSError, match="gone"):
        write_rows(ROWS.schema, failing(), format, tmp_path / "rows")
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("rows", "as it was")]


def test_fields_of_one_name_are_numbered(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inner = pa.StructArray.from_arrays([pa.array([1, 2]), pa.array([0.5, 1.5])], names=["a", "a"])
    twice = pa.StructArray.from_arrays([pa.array([3, 4]), inner, pa.array(["x", "y"])], names=["sum", "sum_2", "sum"])
    rows = pa.record_batch({"value": twice, "lists": pa.ListArray.from_arrays([0, 1, 2], inner)})
    write_rows(*numbered(rows.schema, [rows.slice(1)]), Format.JSON, tmp_path / "rows.json")
    assert json.loads((tmp_path / "rows.json").read_text()) == {
        "value": {"sum": 4, "sum_2": {"a": 2, "a_2": 1.5}, "sum_3": "y"},
        "lists": [{"a": 2, "a_2": 1.5}],
    }
    assert "numbered: value.sum_2.a_2, value.sum_3\n" in capsys.readouterr().err


def test_only_what_got_a_number_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inner = pa.array([{"a": 1}])
    rows = pa.record_batch({"value": pa.StructArray.from_arrays([inner, inner], names=["x", "x"])})
    write_rows(*numbered(rows.schema, [rows]), Format.JSON, tmp_path / "rows.json")
    assert "numbered: value.x_2\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("format", "json", "output", "chosen"),
    [
        (None, False, None, Format.TABLE),
        (None, True, None, Format.JSON),
        (Format.CSV, False, None, Format.CSV),
        (None, False, Path("x.parquet"), Format.PARQUET),
        (None, False, Path("x.jsonl"), Format.JSON),
        (Format.TABLE, False, Path("x.txt"), Format.TABLE),
        (Format.ARROW, False, Path("x.csv"), Format.ARROW),
        (Format.PARQUET, False, None, Format.PARQUET),
    ],
)
def test_format(format: Format | None, json: bool, output: Path | None, chosen: Format) -> None:
    assert choose_format(format, json, output) == chosen


def test_json_and_another_format_exclude_each_other() -> None:
    with pytest.raises(typer.BadParameter):
        choose_format(Format.CSV, True, None)


@pytest.mark.parametrize("format", [Format.PARQUET, Format.ARROW])
def test_binary_formats_are_not_for_terminals(format: Format, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    with pytest.raises(typer.BadParameter, match="-o"):
        choose_format(format, False, None)
    assert choose_format(format, False, Path("x")) == format
