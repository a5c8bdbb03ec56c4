"""The documentation site: it is built without warnings, and its pages are readable in a browser without a network."""
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from browser import CHROMIUM, Page
from support import PLIMSOLL, ROOT

READABLE = (Path(__file__).parent / "readable.js").read_text()
# A page of each kind. All pages in four modes take two minutes.
PAGES = ("index", "tasks", "gallery/index", "coming-from/warp", "reference/plimsoll", "reference/gateway",
         "reference/compatibility", "operations/monitoring", "decisions/0022-log-structured-catalog", "project/CHANGELOG")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Returns the directory of the site."""
    folder = tmp_path_factory.mktemp("site")
    generated = folder / "generated"
    subprocess.run([os.path.join(os.path.dirname(PLIMSOLL), "plimsoll-package"), generated], check=True)
    (generated / "gallery").mkdir()
    for run in Path(ROOT, "docs/gallery").iterdir():
        if run.is_dir():
            subprocess.run([PLIMSOLL, "report", run, "--output", generated / f"gallery/{run.name}.html"], check=True,
                           stdout=subprocess.DEVNULL)
    built = subprocess.run([sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file",
                            os.path.join(ROOT, "site/mkdocs.yml"), "--site-dir", str(folder / "site")],
                           capture_output=True, text=True,
                           env={**os.environ, "PLIMSOLL_GENERATED": str(generated), "NO_MKDOCS_2_WARNING": "1"})
    assert built.returncode == 0 and "WARNING" not in built.stderr, built.stderr
    return folder / "site"


def test_every_document_is_a_page(site):
    for document in Path(ROOT, "docs").rglob("*.md"):
        path = document.relative_to(Path(ROOT, "docs")).with_suffix(".html")
        page = site / (path.parent / "index.html" if path.stem == "README" else path)
        assert page.exists(), page


def test_no_page_loads_from_another_host(site):
    elsewhere = re.compile(r"""<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=["']?(?:https?:)?//[^\s"'>]+""")
    for page in site.rglob("*.html"):
        assert elsewhere.findall(page.read_text()) == [], page


def test_every_picture_of_the_gallery_opens_its_report(site):
    text = (site / "gallery/index.html").read_text()
    pictures = sorted(path.stem for path in Path(ROOT, "docs/gallery").glob("*.png"))
    assert len(pictures) == 6
    for name in pictures:
        assert f'href="{name}.html"' in text and (site / f"gallery/{name}.html").stat().st_size > 100_000


def test_the_reference_has_the_keys_of_the_settings_with_their_defaults(site):
    text = (site / "reference/gateway.html").read_text()
    for part in ("password_env", "payback_period", "<code>64 MiB</code>", "at most 1 MiB"):
        assert part in text, part


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        if os.environ.get("PLIMSOLL_REQUIRE_BROWSER"):
            pytest.fail("Chromium is not installed", pytrace=False)
        pytest.skip("Chromium is not installed")
    page = Page()
    yield page
    page.close()


# Tables and code scroll in their own boxes; a menu that is closed is outside of a narrow window, the search has a text
# for screen readers before it has begun, and the header shortens the title of the page.
READABLE_SITE = (READABLE.replace("cards.filter", "(window.cards || []).filter")
                 .replace('".scroll, .alternative, pre"', '".scroll, .alternative, pre, .md-typeset__scrollwrap"')
                 .replace("!e.checkVisibility()", '!e.checkVisibility() || e.closest(".md-search, .md-header") '
                          '|| (innerWidth < 500 && e.closest(".md-sidebar"))'))


@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("dark", [False, True])
def test_pages_are_readable_without_a_network(site, browser, width, dark):
    for name in PAGES:
        browser.requests.clear()
        browser.open((site / f"{name}.html").as_uri(), width=width, dark=dark)
        assert browser.run(READABLE_SITE) == [], name
        assert browser.run("document.documentElement.scrollWidth <= innerWidth"), name
        assert browser.trouble == [], name
        # Fonts, icons and the index of the search are files or parts of the page.
        assert all(url.startswith(("file:", "data:", "blob:")) for url in browser.requests), browser.requests


def test_the_search_works_without_a_server(site, browser):
    browser.open((site / "index.html").as_uri())
    browser.run("document.querySelector('label[for=__search]').click()")
    # The page listens for keys only when its scripts are ready.
    browser.run("""new Promise((found) => { const timer = setInterval(() => {
        const input = document.querySelector('.md-search__input');
        input.focus(); input.value = 'undelete';
        input.dispatchEvent(new Event('input', {bubbles: true}));
        input.dispatchEvent(new KeyboardEvent('keyup', {bubbles: true}));
        if (/matching/.test(document.querySelector('.md-search-result').textContent)) { clearInterval(timer); found(); }
    }, 50); })""")
    assert "undelete" in browser.run("document.querySelector('.md-search-result').textContent")
