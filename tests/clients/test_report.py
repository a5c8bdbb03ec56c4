"""The HTML report in a real browser: every chart is drawn with data, without errors or network requests."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

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
concurrency = { from = 1, step = 2, to = 11, every = "1s", stop = "never" }
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
    with Server("--inject", "error=0.02") as faulty, Server() as sound, Server("--inject", "capacity=150/s") as slow, \
            Server("--inject", "latency=10ms,capacity=250/s") as bent:
        store = lambda server: f"s3://bench/?endpoint={server.url}"
        for name, text in (("ramp.toml", RAMP), ("sweep.toml", SWEEP)):
            (folder / name).write_text(text)
        each = {
            "mixed": ["mixed", "--store", store(sound), "--store", store(faulty), "--duration", "4s", "--warmup", "0s",
                      "--slo", "rate > 1/s", "--slo", "get.errors < 50%"],
            # Both stores have a knee near 2.5 operations in flight.
            "ramp": [folder / "ramp.toml", "--store", store(bent), "--store", store(bent).replace("bench", "other")],
            "sweep": [folder / "sweep.toml", "--store", store(sound)],
            "matrix": ["get", "--store", store(sound), "--sweep", "size=1KiB,64KiB", "--sweep", "concurrency=1,4",
                     "--duration", "1s", "--warmup", "0s"],
            "contest": ["get", "--store", store(sound), "--store", store(faulty), "--sweep", "size=1KiB,64KiB",
                        "--duration", "1s", "--warmup", "0s"],
            "contention": ["contention", "--store", store(sound), "--writers", "1,2", "--duration", "1s"],
            "capacity": ["capacity", "--store", store(slow), "--slo", "get.p90 < 50ms", "--within", "60s", "--step", "1s", "--from", "100/s",
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
    "matrix": ["sweep"],
    "contest": ["sweep"],
    "contention": ["throughput", "rate"],
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
        assert page.run(f"picture(spec('{chart}'), 'svg', (s) => s.renderToSVGString()).startsWith('<svg')"), chart
        assert page.run(f"picture(spec('{chart}'), 'canvas', (s) => s.getDataURL({{type: 'png'}})).length") > 1000
    page.run("toggleTable(spec('curve'))")
    assert page.run("document.querySelectorAll('#curve .alternative td').length") > 10
    before = page.run("spec('curve').instance.getOption().series.length")
    page.run("plimsoll.pick(0); draw(spec('curve'))")
    assert page.run("spec('curve').instance.getOption().series.length") < before
    assert page.trouble == []


def test_one_report_shows_several_runs(runs, page, tmp_path):
    out = tmp_path / "both.html"
    plimsoll("report", runs["mixed"], runs["ramp"], "--output", out, "--published", "tigris-ycsb")
    page.open(out.as_uri())
    page.run("plimsoll.drawAll()")
    assert page.run("plimsoll.empty.length") == 0 and page.trouble == []
    assert "published by others, not measured here" in page.run("document.body.textContent")
    marks = page.run("spec('rate').instance.getOption().series.flatMap((s) => s.markLine ? s.markLine.data : [])"
                     ".map((m) => m.label.formatter)")
    assert marks and all(re.fullmatch(r"P\d+", mark) for mark in marks), marks
    explained = page.run("[...document.querySelectorAll('#rate .key li')].map((li) => li.textContent)")
    assert [line.split()[0] for line in explained] == marks and all("published" in line for line in explained)


def test_a_search_with_closed_loops_shows_throughput_against_concurrency(runs, page, tmp_path):
    text = (runs["capacity"] / "report.html").read_text()
    assert '"in_flight":1,' in text
    (tmp_path / "closed.html").write_text(text.replace('"in_flight":1,', '"in_flight":4,', 1))
    page.open((tmp_path / "closed.html").as_uri())
    page.run("plimsoll.drawAll()")
    assert [row[1] for row in page.run("spec('capacity-concurrency').table().slice(1)")] == [1, 4]
    assert page.run("plimsoll.empty.length") == 0 and page.trouble == []


READABLE = (Path(__file__).parent / "readable.js").read_text()


@pytest.mark.parametrize("name", CHARTS)
@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("dark", [False, True])
def test_text_is_readable_and_nothing_is_cut_off(runs, page, name, width, dark):
    page.open((runs[name] / "report.html").as_uri(), width=width, dark=dark)
    page.run("plimsoll.drawAll()")
    assert page.run(READABLE) == []


def test_a_phone_shows_rate_and_percentiles_without_scrolling_sideways(runs, page):
    page.open((runs["mixed"] / "report.html").as_uri(), width=390)
    seen = page.run("""[...document.querySelectorAll('.figures td')].filter((td) => td.checkVisibility()).filter((td) => {
        const box = td.getBoundingClientRect(); return box.left >= 0 && box.right <= innerWidth; }).map((td) => td.dataset.label)""")
    assert {"rate", "p50", "p99"} <= set(seen), seen


def test_a_picture_of_the_whole_page_shows_every_chart(runs, page):
    """Regression test: charts below the window were empty until somebody scrolled to them."""
    page.open((runs["mixed"] / "report.html").as_uri())
    page.run("""new Promise((done) => { const wait = () => cards.every((card) => card.fresh) ? done() : setTimeout(wait, 20); wait(); })""")
    state = page.run("JSON.parse(JSON.stringify(plimsoll))")
    assert state["charts"] == state["drawn"] > 5 and state["empty"] == [], state


@pytest.mark.parametrize("dark", [False, True])
def test_every_chart_fits_on_paper_and_is_dark_on_white(runs, page, dark):
    """Regression test: printed charts were as wide as the screen, and those of a dark page had light text."""
    page.open((runs["mixed"] / "report.html").as_uri(), dark=dark)
    page.run("dispatchEvent(new Event('beforeprint'))")
    page.call("Emulation.setEmulatedMedia", media="print", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
    assert page.run("cards.every((card) => card.fresh)")
    # The layout of a page of A4, which no event announces.
    page.run("document.body.style.width = '700px'")
    canvases = page.run("[...document.querySelectorAll('.plot canvas')].map((c) => [c.getBoundingClientRect().right, c.getBoundingClientRect().height])")
    assert canvases and all(right <= 700 and height > 50 for right, height in canvases), canvases
    assert page.run("getComputedStyle(document.documentElement).getPropertyValue('--ink').trim()") == page.run(
        "(() => { document.documentElement.dataset.theme = 'light'; return css('--ink'); })()")
    page.call("Emulation.setEmulatedMedia", media="", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
    page.run("dispatchEvent(new Event('afterprint'))")
    assert page.run("document.documentElement.dataset.theme") == ("dark" if dark else "light")
    paper = page.call("Page.printToPDF", printBackground=True)["data"]
    assert len(paper) > 10_000 and page.trouble == []


def test_a_phone_shows_the_verdicts_without_scrolling_sideways(runs, page):
    """Regression test: the last column of a comparison was outside the window of a phone."""
    page.open((runs["mixed"] / "report.html").as_uri(), width=390)
    cut = page.run("""[...document.querySelectorAll('.verdicts td:last-child')].filter((td) => td.checkVisibility())
        .map((td) => td.getBoundingClientRect()).map((box) => box.left >= 0 && box.right <= innerWidth && box.height > 0)""")
    assert cut and all(cut)


def test_right_is_better_for_all_figures_of_a_comparison(runs, page, tmp_path):
    """Regression test: one chart had ratios of latencies, where left is better, and of rates, where right is."""
    # The short run has no intervals.
    text = (runs["mixed"] / "report.html").read_text()
    known = '"change":0.8,"change_high":0.9,"change_low":0.7'
    text, replaced = re.subn('"change":[^,]*,"change_high":[^,]*,"change_low":[^,}]*', known, text)
    assert replaced > 3
    (tmp_path / "compared.html").write_text(text)
    page.open((tmp_path / "compared.html").as_uri())
    rows = page.run("compared.map((row) => [row.unit, row.speed, row.low, row.high])")
    assert {unit for unit, *_ in rows} >= {"ms", "per_s"}
    for unit, speed, low, high in rows:
        assert low <= speed <= high and abs(speed - (1.25 if unit == "ms" else 0.8)) < 1e-9


def test_the_page_starts_with_the_question_and_its_answer(runs, page):
    page.open((runs["capacity"] / "report.html").as_uri())
    assert page.run("document.querySelector('h1').textContent").startswith("How much can s3://bench")
    assert page.run("document.querySelector('.sentence').textContent").startswith("capacity of s3://bench")
    above = "document.querySelector('#capacity').getBoundingClientRect().top < document.querySelector('.figures').getBoundingClientRect().top"
    assert page.run(above), "the chart that answers the question is above the figures"


def test_a_sweep_of_two_stores_compares_all_points_and_names_the_stores(runs, page):
    page.open((runs["contest"] / "report.html").as_uri())
    page.run("plimsoll.drawAll()")
    assert "at get p50: too little data in 2 measurements" in page.run("document.querySelector('.sentence').textContent")
    names = page.run("data.subjects.map((s) => s.name)")
    assert len(set(names)) == 2
    assert page.run("spec('sweep').table().slice(1).map((row) => row[0])") == [names[0]] * 2 + [names[1]] * 2
    options = page.run("[...document.querySelectorAll('#sweep option')].map((o) => o.textContent)")
    assert len(set(options)) == len(options) and {o.split(" ")[0] for o in options} == set(names), options


def test_the_label_of_a_knee_is_readable_wherever_the_knee_is(runs, page):
    """Regression test: a label over a point of the curve had too little contrast in the dark page."""
    for knee in (1.2, 2, 2.8, 3, 3.2, 5, 7, 9):
        page.open((runs["ramp"] / "report.html").as_uri(), dark=True)
        page.run(f"data.runs.forEach((run) => run.ramps.forEach((ramp, i) => {{ ramp.knee_in_flight = {knee} + 0.9 * i; }}))")
        page.run("plimsoll.drawAll()")
        assert [problem for problem in page.run(READABLE) if "knee" in problem] == [], knee


def test_each_knee_is_marked_once(runs, page):
    """Regression test: every curve of a chart had the labels of all knees, one above the other."""
    page.open((runs["ramp"] / "report.html").as_uri())
    page.run("plimsoll.drawAll()")
    labels = page.run("""echarts.getInstanceByDom(document.querySelector('#ramp-latency .plot')).getOption().series
        .flatMap((s) => s.markLine && s.markLine.data || []).map((m) => m.label.formatter)""")
    assert labels and len(labels) == len(set(labels)), labels


def test_a_contention_shows_its_highest_rate_and_its_conflicts(runs, page):
    page.open((runs["contention"] / "report.html").as_uri())
    assert page.run("document.querySelector('.sentence').textContent").startswith("up to ")
    section = page.run("document.querySelector('section[aria-label=Writers]').textContent")
    assert "conflicts" in section and "fairness" in section, section


def test_a_page_without_charts_carries_no_chart_library(tmp_path):
    bill = tmp_path / "prices.html"
    plimsoll("cost", "--storage", "1TB", "--format", "html", "--output", bill)
    assert "echarts" in bill.read_text()
    listing = tmp_path / "history.html"
    (tmp_path / "empty").mkdir()
    plimsoll("history", tmp_path / "empty", "--format", "html", "--output", listing)
    assert len(listing.read_text()) < 60_000


def test_a_published_site_has_an_index_trends_and_pages_of_runs(runs, page, tmp_path):
    site = tmp_path / "site"
    plimsoll("report", "--publish", site, runs["mixed"], runs["ramp"])
    page.requests.clear()
    page.open((site / "index.html").as_uri(), width=390)
    links = page.run("[...document.querySelectorAll('a[href$=\".html\"]')].map((a) => a.getAttribute('href'))")
    assert {"get.p50.html", "get.p99.html", "get.rate.html"} <= set(links), links
    assert sum(link.startswith("runs/") for link in links) == 2
    assert all((site / link).exists() for link in links)
    page.open((site / "get.p50.html").as_uri())
    page.run("plimsoll.drawAll()")
    assert page.run("plimsoll.empty.length") == 0 and page.trouble == []


def test_runs_of_one_store_are_named_by_their_labels_or_their_start(runs, page, tmp_path):
    copies = [shutil.copytree(runs[run], tmp_path / run) for run in ("matrix", "sweep")]
    both = tmp_path / "both.html"

    def names(**changed):
        for number, copy in enumerate(copies):
            result = json.loads((copy / "result.json").read_text())
            result["run"].update({name: values[number] for name, values in changed.items()})
            (copy / "result.json").write_text(json.dumps(result))
        plimsoll("report", *copies, "--output", both)
        page.open(both.as_uri())
        return page.run("data.subjects.map((s) => s.name)")

    started = ["2026-01-02T03:04:05Z", "2026-01-02T03:04:06Z"]
    assert names(started_at=started) == ["s3://bench (2026-01-02 03:04:05)", "s3://bench (2026-01-02 03:04:06)"]
    assert names(started_at=started[:1] * 2) == [f"s3://bench ({copy.name})" for copy in (runs["matrix"], runs["sweep"])]
    assert names(labels=[{"branch": "b0"}, {"branch": "b1"}]) == ["s3://bench (branch=b0)", "s3://bench (branch=b1)"]
