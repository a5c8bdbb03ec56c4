"""The console of the gateway and the live page of a run in a real browser: figures, forms, changes, and who may make them."""
import base64
import datetime
import json
import os
import shutil
import ssl
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import axe_core_python
import pytest

from browser import CHROMIUM, Page
from postgres import Postgres, programs
from support import ACCESS, GATEWAY, PLIMSOLL, SECRET, Server, environment
from test_site import READABLE_SITE
from test_tiers import BLOB, client, rule, run, settings, wait

if CHROMIUM is None:
    if os.environ.get("PLIMSOLL_REQUIRE_BROWSER"):
        pytest.fail("Chromium is not installed", pytrace=False)
    pytest.skip("Chromium is not installed", allow_module_level=True)

AXE = (Path(axe_core_python.__file__).parent / "axe.min.js").read_text()
VIEWS = [(width, dark) for width in (1440, 390) for dark in (False, True)]
CONSOLE = ("--admin-listen", "127.0.0.1:0")
PACK = '[pack]\ntier = "hot"\nmax_body = "64 KiB"\nmin_age = "1h"\n'
PRICES = 'offer = "aws-s3@us-east-1"\n'


@pytest.fixture(scope="module")
def browser():
    page = Page()
    yield page
    page.close()


@pytest.fixture
def gateway(tmp_path):
    """Starts a gateway with a console, two buckets, and rules that move nothing within an hour."""
    path = Path(settings(tmp_path, moves=rule(when="age > 1h and size >= 64 KiB", keep="1h") + PACK, retain="1h"))
    path.write_text(path.read_text().replace("[write]", PRICES + "[write]").replace("[tier.cold]", PRICES + "[tier.cold]"))
    with run(str(path), *CONSOLE) as server:
        s3 = client(server)
        for bucket in ("photos", "logs"):
            s3.create_bucket(Bucket=bucket)
        for number in range(3):
            s3.put_object(Bucket="photos", Key=f"2026/{number}.jpg", Body=bytes([number]) * BLOB)
        s3.put_object(Bucket="logs", Key="small", Body=b"in the catalog")
        yield server


def figures(browser):
    """Returns the key figures by name."""
    return dict(browser.run("[...document.querySelectorAll('.tile')].map((t) => [t.querySelector('h2').textContent,"
                            " t.querySelector('.figure').textContent])"))


def opened(browser, url, **view):
    browser.trouble.clear()
    browser.requests.clear()
    browser.open(url, **view)


def wait_in(browser, condition, what):
    wait(lambda: browser.run(condition), what)


def submitted(browser, form, into, fields, button="button:last-of-type"):
    """Fills in a form, sends it, and returns the text of its result."""
    result = f"document.getElementById({json.dumps(into)})"
    for name, value in fields.items():
        fill(browser, f"{form} [name={name}]", value)
    browser.run(f"{result}.replaceChildren(); document.querySelector({json.dumps(f'{form} {button}')}).click()")
    wait_in(browser, f"{result}.textContent.trim() !== '' && !{result}.hasAttribute('aria-busy')", "the form has an answer")
    return browser.run(f"{result}.textContent")


def fill(browser, selector, value):
    browser.run(f"document.querySelector({json.dumps(selector)}).value = {json.dumps(value)}; true")


def problems(browser):
    """Returns what axe finds, whatever its impact, and texts that cannot be read."""
    browser.run(AXE + "; true")
    found = browser.run("axe.run(document, { resultTypes: ['violations'] }).then((r) => r.violations.map((v) => v.id + ': ' + v.nodes[0].html))")
    wide = browser.run("document.documentElement.scrollWidth > innerWidth")
    return found + browser.run(READABLE_SITE) + browser.trouble + (["sideways scrolling"] if wide else [])


def test_every_view_is_readable_and_accessible(gateway, browser):
    for width, dark in VIEWS:
        opened(browser, gateway.console, width=width, dark=dark)
        assert problems(browser) == [], (width, dark)
        submitted(browser, "form[action='/where']", "where-result", {"object": "photos/2026/0.jpg"})
        submitted(browser, "form[action='/plan']", "plan-result", {})
        assert problems(browser) == [], (width, dark)
        assert {url.split("?")[0] for url in browser.requests} == {
            gateway.console + page for page in ("", "live.css", "live.js", "where", "plan")}


def test_the_page_shows_the_store_and_follows_it(gateway, browser):
    opened(browser, gateway.console)
    wait_in(browser, "window.plimsoll.update().then(() => document.getElementById('buckets').textContent.includes('900 KiB') "
                     "|| document.getElementById('buckets').textContent.includes('878.9 KiB'))", "the objects are counted")
    shown = figures(browser)
    assert shown["Objects and versions"] == "4" and shown["Waiting moves"] == "0", shown
    assert shown["Last backup of the catalog"] == "none recorded", shown
    state = browser.run("document.getElementById('state').textContent")
    assert state.startswith("Running"), state
    client(gateway).delete_object(Bucket="photos", Key="2026/0.jpg")
    wait_in(browser, "window.plimsoll.update().then(() => document.getElementById('tiles').textContent.includes('1 deleted or replaced'))",
            "the kept object is counted")
    assert figures(browser)["Objects and versions"] == "3"


def test_an_object_is_found_and_a_wrong_name_explained(gateway, browser):
    opened(browser, gateway.console)
    ask = lambda name: submitted(browser, "form[action='/where']", "where-result", {"object": name})
    found = ask("photos/2026/1.jpg")
    assert "photos/2026/1.jpg is in tier hot" in found and "moves to cold" in found and "(move 1)" in found, found
    assert "logs/small is in the catalog" in ask("s3://logs/small")
    assert "there is no such bucket" in ask("nothing/here")
    assert "<b>" in ask("photos/<b>x</b>") and browser.run("document.querySelectorAll('#where b').length") == 0
    assert browser.trouble == []


def test_a_slider_changes_the_plan(gateway, browser):
    opened(browser, gateway.console)
    now = submitted(browser, "form[action='/plan']", "plan-result", {})
    assert "The rules would move nothing now." in now, now
    stops = browser.run("document.querySelector('[name=\"move.1.age\"]').dataset.stops").split("|")
    assert stops[:2] == ["0s", "1h"] and "30d" in stops
    # A slider computes the plan when it is let go.
    browser.run("{ const s = document.querySelector('[name=\"move.1.age\"]'); s.value = 0; s.oninput(); s.onchange(); }")
    wait_in(browser, "document.getElementById('plan-result').textContent.includes('The rules would move 3 blobs')", "the plan changes")
    changed = browser.run("document.getElementById('plan-result').textContent")
    assert "move.1.when=age > 0s and size >= 64 KiB" in changed and "as in the file" in changed, changed
    assert browser.run("document.querySelector('[name=\"move.1.age\"]').getAttribute('aria-valuetext')") == "0s"
    assert browser.trouble == []


def test_only_an_administrator_brings_objects_back(gateway, browser):
    s3 = client(gateway)
    # The time has the precision of a millisecond, and the deletion is later.
    at = time.time()
    wait(lambda: time.time() > at + 0.002, "the clock stands still")
    at = datetime.datetime.fromtimestamp(at + 0.001, datetime.timezone.utc).isoformat(timespec="milliseconds")
    s3.delete_object(Bucket="photos", Key="2026/2.jpg")
    opened(browser, gateway.console)

    def ask(button, **account):
        for name, value in account.items():
            fill(browser, f"[name={name}]", value)
        return submitted(browser, "form[aria-label^='Bring back']", "change-result", {"bucket": "photos", "at": at}, button)

    bring_back = "button[name=execute]"
    assert "Changes need the access key" in ask(bring_back)
    assert "its secret key is wrong" in ask(bring_back, access_key=ACCESS, secret_key="wrong")
    count = f"1 objects with {BLOB} bytes"
    assert f"{count} can be brought back" in ask("button:not([name])", secret_key=SECRET)
    assert s3.list_objects_v2(Bucket="photos")["KeyCount"] == 2
    assert f"{count} brought back" in ask(bring_back)
    assert browser.run("document.querySelectorAll('button:disabled, [aria-busy]').length") == 0
    assert s3.get_object(Bucket="photos", Key="2026/2.jpg")["Body"].read() == bytes([2]) * BLOB
    assert browser.run("document.querySelector('[name=secret_key]').type") == "password"
    # Neither the address of the page nor a store of the browser has the secret.
    assert SECRET not in browser.run("location.href + JSON.stringify(localStorage) + JSON.stringify(sessionStorage) + document.cookie")
    assert all("403" in text for text in browser.trouble), browser.trouble


def post(url, fields, path="undelete", **headers):
    data = fields if isinstance(fields, bytes) else urllib.parse.urlencode(fields).encode()
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(url + path, data, headers=headers)
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def basic(key, secret):
    return "Basic " + base64.b64encode(f"{key}:{secret}".encode()).decode()


def test_accounts_without_all_rights_change_nothing(tmp_path):
    accounts = tmp_path / "accounts.toml"
    accounts.write_text("".join(f"[[account]]\naccess_key = '{key}'\nsecret_key = '{SECRET}'\n{rights}\n" for key, rights in (
        (ACCESS, "write = true"), ("reader", ""), ("one", "write = true\nbuckets = ['bucket']"))))
    accounts.chmod(0o600)
    fields = {"bucket": "bucket", "at": "30m"}
    with run(settings(tmp_path, retain="1h"), *CONSOLE, "--credentials", accounts) as server:
        client(server).create_bucket(Bucket="bucket")
        for key, secret in (("reader", SECRET), ("one", SECRET), (ACCESS, SECRET[:-1]), (ACCESS, "")):
            status, text = post(server.console, fields, Authorization=basic(key, secret))
            assert status == 403 and "not the account of an administrator" in text, (key, text)
        status, text = post(server.console, fields, Authorization=basic(ACCESS, SECRET))
        assert status == 200 and "0 objects with 0 bytes can be brought back" in text, text
        # A form that is incomplete or malformed changes nothing.
        status, text = post(server.console, {}, "rollback", Authorization=basic(ACCESS, SECRET))
        assert status == 200 and "0 moves with 0 bytes can be rolled back" in text, text
        for fields_of in (b"bucket=bucket&at=100%", b"bucket=bucket&execute=1&at=\xff"):
            assert post(server.console, fields_of, Authorization=basic(ACCESS, SECRET))[0] == 400, fields_of
        status, text = post(server.console, {"bucket": "bucket", "execute": "1"}, Authorization=basic(ACCESS, SECRET))
        assert status == 400 and "--at" in text, text
        status, _ = post(server.console, b'{"execute": 1}', "rollback", Authorization=basic(ACCESS, SECRET),
                         Content_Type="application/json")
        assert status == 400
        # A proxy on this machine may have received the account through a network without TLS.
        status, text = post(server.console, fields, Authorization=basic(ACCESS, SECRET), X_Forwarded_For="192.0.2.1")
        assert status == 403 and "Changes need TLS" in text, text
        # Five attempts have failed before.
        for _ in range(6):
            post(server.console, fields, Authorization=basic(ACCESS, "guess"))
        status, text = post(server.console, fields, Authorization=basic(ACCESS, SECRET))
        assert status == 403 and "Too many failed attempts" in text, text


def test_other_sites_cannot_read_or_change_anything(gateway):
    def get(path, **headers):
        try:
            return urllib.request.urlopen(urllib.request.Request(gateway.console + path, headers=headers))
        except urllib.error.HTTPError as error:
            return error

    assert get("", Host="evil.example").status == 421
    assert get("where?object=photos/2026/1.jpg", Host="evil.example:80").status == 421
    page = get("")
    policy = page.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy and "unsafe" not in policy
    assert not any(name.lower().startswith("access-control") for name in page.headers)
    assert get("undelete").status == 405 and get("metrics").status == 404
    foreign = {"Sec-Fetch-Site": "cross-site"}
    assert get("plan", **foreign).status == 403 and get("", **foreign).status == 200
    assert post(gateway.console, {"bucket": "photos"}, Authorization=basic(ACCESS, SECRET), Sec_Fetch_Site="cross-site")[0] == 403
    long = post(gateway.console, {"bucket": "x" * 70_000})
    assert long[0] == 413, long


def test_the_keyboard_is_sufficient(gateway, browser):
    opened(browser, gateway.console)

    def press(key, code, text=""):
        for kind in ("keyDown", "keyUp"):
            browser.call("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **({"text": text} if text and kind == "keyDown" else {}))

    seen = []
    for _ in range(40):
        press("Tab", 9)
        seen.append(browser.run("{ const e = document.activeElement; e.getAttribute('name') || e.id || e.textContent.trim() }"))
        outlined = browser.run("getComputedStyle(document.activeElement).outlineStyle")
        assert outlined != "none", seen
        if seen[-1] == "object":
            break
    assert seen[:3] == ["Skip to the content", "pause", "theme"] and seen[-1] == "object", seen
    browser.call("Input.insertText", text="logs/small")
    press("Enter", 13, "\r")
    wait_in(browser, "document.getElementById('where-result').textContent.includes('is in the catalog')", "the object is found")
    browser.run("document.querySelector('[name=\"move.1.age\"]').focus()")
    for _ in range(5):
        press("ArrowLeft", 37)
    press("Home", 36)
    # Each key asks for a plan, and the last one is that of the slider.
    wait_in(browser, "document.getElementById('plan-result').textContent.includes('age > 0s') "
                     "&& !document.getElementById('plan-result').hasAttribute('aria-busy')", "the last plan is computed")


def test_a_page_says_that_its_gateway_does_not_answer(tmp_path, browser):
    with run(settings(tmp_path), *CONSOLE) as server:
        opened(browser, server.console)
        assert browser.run("document.getElementById('stale').hidden")
    browser.run("window.plimsoll.update()")
    text = browser.run("document.getElementById('stale').hidden ? '' : document.getElementById('stale').textContent")
    assert text.startswith("No answer since ") and "the gateway may have ended" in text, text


def test_a_data_directory_has_a_console_without_plans(tmp_path, browser):
    with Server("--data", tmp_path / "data", *CONSOLE, command=(GATEWAY, "run")) as server:
        opened(browser, server.console)
        assert browser.run("document.getElementById('plan')") is None
        assert "There are no buckets." in browser.run("document.getElementById('buckets').textContent")
        assert problems(browser) == []


def test_the_console_has_the_certificate_of_the_gateway(tmp_path):
    if not shutil.which("openssl"):
        pytest.skip("openssl is not installed")
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out",
                    certificate, "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
    with run(settings(tmp_path), *CONSOLE, "--tls-cert", certificate, "--tls-key", key) as server:
        assert server.console.startswith("https://")
        context = ssl.create_default_context(cafile=certificate)
        with urllib.request.urlopen(server.console, context=context) as answer:
            assert b"Plimsoll gateway" in answer.read()


def test_the_live_page_of_a_run(tmp_path, browser):
    with Server("--inject", "error=0.05,latency=2ms") as store:
        process = subprocess.Popen(
            [PLIMSOLL, "run", "get", "--store", f"s3://bench/?endpoint={store.url}", "--create-bucket", "--duration", "10m", "--warmup", "0s",
             "--out", tmp_path, "--live-listen", "127.0.0.1:0"], env=environment(), stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            url = next(line for line in process.stderr if "live view on " in line).split()[-1]
            opened(browser, url)
            wait_in(browser, "window.plimsoll.update().then(() => document.querySelectorAll('#failures td').length > 0)", "operations have failed")
            state = browser.run("document.getElementById('state').textContent")
            assert state == "The run is in progress.", state
            assert {"Throughput", "Time left", "Median service time", "Succeeded", "CPU of the client"} <= set(figures(browser))
            browser.run("document.getElementById('pause').click()")
            labels = browser.run("[...document.querySelectorAll('svg[role=img]')].map((s) => s.getAttribute('aria-label'))")
            assert labels[1].startswith("Operations in per second, 0:00 to 0:59. succeeded: last "), labels
            assert browser.trouble == []
            for width, dark in VIEWS:
                opened(browser, url, width=width, dark=dark)
                assert problems(browser) == [], (width, dark)
            assert all(address.startswith((url, "data:")) for address in browser.requests), browser.requests
        finally:
            process.terminate()
            process.communicate()


@pytest.mark.skipif(programs() is None, reason="PostgreSQL is not installed")
def test_one_of_several_gateways_counts_and_a_lost_database_is_named(tmp_path, browser):
    with Postgres() as database:
        path = Path(settings(tmp_path))
        path.write_text(path.read_text().replace(f"dir:{tmp_path}/catalog", database.url))
        with run(str(path)) as before:
            client(before).create_bucket(Bucket="photos")
            client(before).put_object(Bucket="photos", Key="large", Body=bytes(BLOB))
        with run(str(path), *CONSOLE) as first, run(str(path), *CONSOLE) as second:
            opened(browser, first.console)
            wait_in(browser, "window.plimsoll.update().then(() => document.getElementById('buckets').textContent.includes('293.0 KiB'))",
                    "the leader counts the object")
            opened(browser, second.console)
            state = browser.run("document.getElementById('state').textContent")
            assert state.startswith("Running; does not move and delete."), state
            cells = browser.run("[...document.querySelectorAll('#buckets td')].map((cell) => cell.textContent)")
            assert set(cells) == {"–"} and figures(browser)["Objects"] == "not counted", cells
            assert "the gateway with session " in browser.run("document.getElementById('tiles').textContent")
            found = submitted(browser, "form[action='/where']", "where-result", {"object": "photos/large"})
            assert "photos/large is in tier hot" in found, found
            database.kill()
            wait_in(browser, "window.plimsoll.update().then(() => document.getElementById('state').textContent"
                             ".startsWith('The state of the gateway cannot be read'))", "the page names the problem")
            assert browser.run("document.getElementById('stale').hidden")
            assert "no answer" not in browser.run("document.getElementById('warnings').textContent").lower()
            database.start()
            wait_in(browser, "window.plimsoll.update().then(() => document.getElementById('state').textContent"
                             ".startsWith('Running'))", "the page recovers")
