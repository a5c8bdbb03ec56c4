"""Pages of bills, break-even points, tiering and advice in a real browser: every chart is drawn, without errors or
network requests."""

import os

import pytest

from browser import CHROMIUM, Page
from support import Server
from test_report import READABLE, plimsoll

if CHROMIUM is None:
    if os.environ.get("PLIMSOLL_REQUIRE_BROWSER"):
        pytest.fail("Chromium is not installed", pytrace=False)
    pytest.skip("Chromium is not installed", allow_module_level=True)

WORK = ["--storage", "10TB", "--put", "50M", "--get", "500M", "--object-size", "64KiB", "--egress", "30%"]
PAGES = {
    "bills": (["cost", *WORK], ["bills"]),
    "published": (["cost", "--as-published", "000"], ["beside"]),
    "breakeven": (["cost", "breakeven", "--between", "aws-s3-express,cloudflare-r2", "--vary", "egress", "--storage", "1TB", "--get", "1G",
                   "--object-size", "64KiB"], ["breakeven"]),
    "tiering": (["cost", "tiering", "--hot", "aws-s3-express", "--cold", "cloudflare-r2", "--hot-days", "7", "--hot-reads", "80%", "--put",
                 "360M", "--object-size", "4MB", "--keep", "90d", "--get", "1500M", "--egress", "1.5PB", "--published", "000"],
                ["tiering", "blend"]),
}


@pytest.fixture(scope="module")
def page():
    page = Page()
    yield page
    page.close()


def check_page(page, path, charts, width, dark):
    page.requests.clear()
    page.open(path.as_uri(), width=width, dark=dark)
    page.run("plimsoll.drawAll()")
    state = page.run("JSON.parse(JSON.stringify(plimsoll))")
    assert state["charts"] == state["drawn"] and state["empty"] == [] and state["errors"] == [], state
    assert page.run("[...document.querySelectorAll('article')].map((a) => a.id)") == charts
    for chart in charts:
        assert page.run(f"spec('{chart}').table().length") > 1, chart
        assert page.run(f"picture(spec('{chart}'), 'svg', (s) => s.renderToSVGString()).startsWith('<svg')"), chart
    assert page.run(READABLE) == []
    assert page.trouble == []
    assert page.requests == [path.as_uri()], "the page loads nothing but itself"
    assert page.run("document.documentElement.scrollWidth <= innerWidth"), "nothing is wider than the window"


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("width,dark", [(1440, False), (390, True)])
def test_pages_draw_every_chart_without_errors_or_requests(page, tmp_path, name, width, dark):
    arguments, charts = PAGES[name]
    out = tmp_path / f"{name}.html"
    plimsoll(*arguments, "--format", "html", "--output", out)
    check_page(page, out, charts, width, dark)


def test_pages_of_advice_and_of_a_run_show_costs(page, tmp_path):
    with Server() as quick, Server("--inject", "latency=20ms") as slow:
        stores = [f"s3://one?endpoint={quick.url}&provider=aws-s3&style=path", f"s3://two?endpoint={slow.url}&provider=cloudflare-r2&style=path"]
        plimsoll("run", "mixed", *(x for s in stores for x in ("--store", s)), "--create-bucket", "--duration", "4s", "--rate", "100/s",
                 "--warmup", "0s", "--objects", "50", "--max-cost", "1", "--out", tmp_path / "runs")
    run = next((tmp_path / "runs").iterdir())
    out = tmp_path / "advice.html"
    plimsoll("advise", run, *WORK, "--slo", "get.p50 < 10s", "--published", "000", "--format", "html", "--output", out)
    page.open(out.as_uri())
    charts = page.run("[...document.querySelectorAll('article')].map((a) => a.id)")
    assert charts[0] == "front"
    check_page(page, out, charts, 1440, False)
    page.open((run / "report.html").as_uri())
    assert "at aws-s3's prices of" in page.run("document.body.textContent")
