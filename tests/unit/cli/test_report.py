"""The page of `hdfsstore report`, opened in a real browser."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.services.fixtures import needed
from tests.services.missing import ServiceMissingError
from tests.support.checkpoints import of_many_partitions
from tests.unit.cli.conftest import Run, checkpoint

PARTITIONS = 400


def chromium() -> str:
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if path := shutil.which(name):
            return path
    raise ServiceMissingError("there is no Chromium", "Install the package chromium")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    path = needed(chromium)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


def timed(folder: Path) -> Path:
    """A checkpoint whose batches took a second each, as the times of its logs' files tell; the last three took nine."""
    copy = Path(shutil.copytree(checkpoint("snapshots"), folder / "checkpoint"))
    entries = sorted(copy.glob("offsets/[0-9]*"), key=lambda path: int(path.name))
    for entry in entries:
        stamp = re.search(r'"batchTimestampMs":(\d+)', entry.read_text("utf-8"))
        assert stamp is not None
        began = int(stamp[1]) / 1000 + 0.1
        os.utime(entry, (began, began))
        took = 9 if entry in entries[-3:] else 1
        os.utime(copy / "commits" / entry.name, (began + took, began + took))
    return copy


class Opened:
    """A page in the browser, with what it said and asked for."""

    def __init__(self, browser: Any, file: Path, **options: Any) -> None:
        self.page = browser.new_page(**options)
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(file.as_uri())

    def color_of(self, selector: str, of: str) -> str:
        script = f"element => getComputedStyle(element)['{of}']"
        return str(self.page.eval_on_selector(selector, script))

    def drawn(self) -> list[dict[str, Any]]:
        """Of each chart: its size on the page, its caption, and how many marks have a shape."""
        return list(
            self.page.eval_on_selector_all(
                "figure",
                """figures => figures.map(figure => ({
                    width: figure.querySelector("svg").getBoundingClientRect().width,
                    caption: figure.querySelector("figcaption").textContent,
                    marks: [...figure.querySelectorAll("svg .role-mark path, svg .role-mark line")]
                        .filter(mark => { const box = mark.getBBox(); return box.width + box.height > 0; }).length,
                }))""",
            )
        )


@pytest.mark.parametrize(
    ("case", "charts"), [("aggregation", 3), ("chained_windows", 7), ("join_inner", 13), ("rocksdb_unique_ids", 3)]
)
def test_the_charts_are_drawn_and_nothing_comes_from_elsewhere(
    case: str, charts: int, run: Run, browser: Any, tmp_path: Path
) -> None:
    run("report", checkpoint(case), "-o", tmp_path / "report.html")
    opened = Opened(browser, tmp_path / "report.html")
    drawn = opened.drawn()
    assert len(drawn) == charts
    assert all(chart["width"] > 300 and chart["caption"] for chart in drawn)
    assert all(chart["marks"] for chart in drawn)
    assert opened.said == []
    assert opened.asked == [(tmp_path / "report.html").as_uri()]
    text = opened.page.inner_text("body")
    assert str(checkpoint(case)) in text
    assert "What retention holds" in text
    opened.page.close()


def test_a_page_of_400_partitions_is_small(run: Run, browser: Any, tmp_path: Path) -> None:
    run("report", of_many_partitions(tmp_path, PARTITIONS), "-o", tmp_path / "report.html", "--points", 2)
    assert (tmp_path / "report.html").stat().st_size < 2 << 20
    opened = Opened(browser, tmp_path / "report.html")
    assert all(chart["marks"] for chart in opened.drawn())
    assert f"{PARTITIONS} partitions" in opened.page.inner_text("body")
    opened.page.click("summary:has-text('All partitions')")
    assert opened.page.locator("details[open] tbody tr").count() == PARTITIONS
    assert opened.said == []
    opened.page.close()


def test_light_dark_and_printed(run: Run, browser: Any, tmp_path: Path) -> None:
    run("report", timed(tmp_path), "-o", tmp_path / "report.html")
    line, back = "svg .mark-line path", "rgb(255, 255, 255)"
    light = Opened(browser, tmp_path / "report.html", color_scheme="light")
    assert (light.color_of("body", "backgroundColor"), light.color_of(line, "stroke")) == (back, "rgb(31, 111, 178)")
    dark = Opened(browser, tmp_path / "report.html", color_scheme="dark")
    assert (dark.color_of("body", "backgroundColor"), dark.color_of(line, "stroke")) == (
        "rgb(20, 24, 31)",
        "rgb(109, 179, 242)",
    )
    dark.page.emulate_media(media="print")
    assert dark.color_of("body", "backgroundColor") == back
    assert dark.page.pdf()[:5] == b"%PDF-"
    # Without colour: one of two lines is dashed, and text says which.
    assert light.page.locator("svg path[stroke-dasharray='6,4']").count() > 0
    text = light.page.inner_text("body")
    assert "Watermark (dashed) beside the clock (solid)" in text
    assert "The last batches took 9.0 s, those before 1.0 s." in text
    for opened in (light, dark):
        assert opened.said == []
        opened.page.close()


def test_text_of_the_state_is_no_markup(run: Run, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(checkpoint("aggregation"), tmp_path / "<script>alert(1)<"))
    run("report", copy, "-o", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text("utf-8")
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)&lt;" in page


def test_two_batches_that_are_compared(run: Run, tmp_path: Path) -> None:
    run("report", checkpoint("aggregation"), "-o", tmp_path / "report.html", "--from", 0, "--to", 3)
    lines = run("diff", checkpoint("aggregation"), "--from", 0, "--to", 3, "--json").lines
    kinds = [line["change"] for line in lines]
    counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in ("added", "changed", "removed"))
    assert f"Keys: {counts}." in (tmp_path / "report.html").read_text("utf-8")
    run("report", checkpoint("aggregation"), "-o", tmp_path / "report.html", "--from", 3, "--to", 3, exit_code=2)


@pytest.mark.parametrize(
    ("case", "parts"),
    [
        (
            "transform_event_timers",
            {"count": ("--state-var", "count"), "timers": ("--timers",)},
        ),
        (
            "transform_avro_ttl",
            {name: ("--state-var", name) for name in ("times", "total", "seen")},
        ),
        ("rocksdb_join_format4", {side: ("--join-side", side) for side in ("left", "right")}),
    ],
)
def test_stores_with_column_families_are_told_part_by_part(
    case: str, parts: dict[str, tuple[str, ...]], run: Run, tmp_path: Path
) -> None:
    run("report", checkpoint(case), "-o", tmp_path / "report.html", "--from", 0, "--to", 2)
    page = (tmp_path / "report.html").read_text("utf-8")
    some = 0
    for part, chosen in parts.items():
        lines = run("diff", checkpoint(case), "--from", 0, "--to", 2, *chosen, "--json").lines
        kinds = [line["change"] for line in lines]
        counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in ("added", "changed", "removed"))
        assert f"Rows of {part}: {counts}." in page
        some += len(kinds)
    assert some
    assert "Rows after some of the batches that are kept" in page
    assert "are not compared" not in page


def test_the_largest_values_of_state_variables(run: Run, tmp_path: Path) -> None:
    run("report", checkpoint("transform_avro_ttl"), "-o", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text("utf-8")
    largest = page.partition("<h3>Largest values</h3>")[2].partition("</table>")[0]
    assert 1 <= largest.count(" of ") <= 5
    assert re.search(r" of (times|total|seen)</td>", largest)


def test_a_part_that_cannot_be_compared_says_why(run: Run, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(checkpoint("transform_event_timers"), tmp_path / "checkpoint"))
    for changelog in copy.glob("state/0/*/2.*"):
        changelog.unlink()
    run("report", copy, "-o", tmp_path / "report.html", "--from", 1, "--to", 3)
    assert "Rows of count are not compared: " in (tmp_path / "report.html").read_text("utf-8")


def test_state_that_cannot_be_read_is_told_on_the_page(run: Run, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(checkpoint("aggregation"), tmp_path / "checkpoint"))
    delta = next(copy.glob("state/0/0/1.delta"))
    delta.write_bytes(delta.read_bytes()[:-3])
    run("report", copy, "-o", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text("utf-8")
    assert "rows are not counted" in page
    assert "1.delta" in page
