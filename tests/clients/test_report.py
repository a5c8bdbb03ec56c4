"""The HTML report in a real browser: every chart is drawn with data, without errors or network requests."""

import os
import subprocess

import pytest

from browser import CHROMIUM, Page
from support import PLIMSOLL, Server, environment

if CHROMIUM is None:
    if os.environ.get("PLIMSOLL_REQUIRE_BROWSER"):
        pytest.fail("Chromium is not installed", pytrace=False)
    pytest.skip("Chromium is not installed", allow_module_level=True)

RAMP = """
name = "ramp"
[[phase]]
name = "load"
role = "prepare"
operations = { put = 1 }
objects = { count = 10, size = "64 KiB" }
[[phase]]
name = "ramp"
operations = { get = 1 }
objects = { from = "load" }
concurrency = { from = 1, step = 2, to = 5, every = "1s", stop = "never" }
"""
SWEEP = """
name = "sweep"
[[phase]]
name = "sweep"
operations = { put = 1 }
objects = { count = 1, size = "10 MiB" }
concurrency = 1
stop_after = 1
sweep = { part_size = ["5 MiB", "10 MiB"], parts_in_flight = [1, 2] }
"""


def plimsoll(*arguments):
    done = subprocess.run([PLIMSOLL, *map(str, arguments)], capture_output=True, text=True, env=environment())
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Returns run directories whose reports together contain every chart."""
    folder = tmp_path_factory.mktemp("runs")
    with Server("--inject", "error=0.02") as faulty, Server() as sound, Server("--inject", "capacity=150/s") as slow:
        store = lambda server: f"s3://bench/?endpoint={server.url}"
        for name, text in (("ramp.toml", RAMP), ("sweep.toml", SWEEP)):
            (folder / name).write_text(text)
        each = {
            "mixed": ["mixed", "--store", store(sound), "--store", store(faulty), "--duration", "4s", "--warmup", "0s"],
            "ramp": [folder / "ramp.toml", "--store", store(sound)],
            "sweep": [folder / "sweep.toml", "--store", store(sound)],
            "capacity": ["capacity", "--store", store(slow), "--slo", "get.p90 < 50ms", "--step", "1s", "--from", "100/s",
                     "--tolerance", "20%"],
        }
        for name, arguments in each.items():
            plimsoll("run", *arguments, "--create-bucket", "--out", folder / name)
    return {name: next((folder / name).iterdir()) for name in each}


@pytest.fixture(scope="module")
def page():
    page = Page()
    yield page
    page.close()


CHARTS = {
    "mixed": ["throughput", "rate", "percentiles", "heatmap", "errors", "curve", "histogram", "boxes", "parts", "client"],
    "ramp": ["ramp-throughput", "ramp-efficiency", "ramp-latency"],
    "sweep": ["sweep"],
    "capacity": ["capacity"],
}


@pytest.mark.parametrize("name", CHARTS)
@pytest.mark.parametrize("width,dark", [(1440, False), (390, True)])
def test_every_chart_has_data_and_the_page_makes_no_requests(runs, page, name, width, dark):
    report = runs[name] / "report.html"
    page.requests.clear()
    page.open(report.as_uri(), width=width, dark=dark)
    page.run("plimsoll.drawAll()")
    state = page.run("JSON.parse(JSON.stringify(plimsoll))")
    assert state["charts"] == state["drawn"] and state["empty"] == [] and state["errors"] == [], state
    ids = page.run("[...document.querySelectorAll('article')].map((a) => a.id)")
    assert set(CHARTS[name]) <= set(ids), ids
    assert page.trouble == []
    assert page.requests == [report.as_uri()], "the page loads nothing but itself"
    assert page.run("document.documentElement.scrollWidth <= innerWidth"), "nothing is wider than the window"


def test_charts_have_tables_downloads_and_a_selection(runs, page):
    page.open((runs["mixed"] / "report.html").as_uri())
    page.run("plimsoll.drawAll()")
    for chart in page.run("cards.map((c) => c.id)"):
        rows = page.run(f"spec('{chart}').table().length")
        assert rows > 1, f"{chart} has no table"
        assert page.run(f"csv(spec('{chart}').table()).split('\\n').length") > rows - 1
        assert page.run(f"svg(spec('{chart}')).startsWith('<svg')"), chart
        assert page.run(f"spec('{chart}').instance.getDataURL({{type: 'png'}}).length") > 1000
    page.run("toggleTable(spec('curve'))")
    assert page.run("document.querySelectorAll('#curve .alternative td').length") > 10
    before = page.run("spec('curve').instance.getOption().series.length")
    page.run("plimsoll.pick(0); draw(spec('curve'))")
    assert page.run("spec('curve').instance.getOption().series.length") < before
    assert page.trouble == []


def test_one_report_shows_several_runs(runs, page, tmp_path):
    out = tmp_path / "both.html"
    plimsoll("report", runs["mixed"], runs["ramp"], "--out", out, "--published", "tigris-ycsb")
    page.open(out.as_uri())
    page.run("plimsoll.drawAll()")
    assert page.run("plimsoll.empty.length") == 0 and page.trouble == []
    assert "published by others, not measured here" in page.run("document.body.textContent")
