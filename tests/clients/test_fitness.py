"""`plimsoll probe --for`: names the defects of stores by the application that they break, and accuses no other."""
import contextlib
import http.client
import http.server
import json
import os
import re
import subprocess
import threading

import boto3
import pytest

from support import ACCESS, GATEWAY, PLIMSOLL, ROOT, SECRET, Server, environment

TABLE = os.path.join(ROOT, "docs", "compatibility.md")


def run(url, *arguments):
    line = [PLIMSOLL, "probe", f"s3://bucket1?endpoint={url}", "--create-bucket", *map(str, arguments)]
    return subprocess.run(line, env=environment(), capture_output=True, text=True)


def judge(url, *arguments, rounds=5):
    """Returns the exit code, the verdicts by application, and the outcomes of the checks."""
    done = run(url, "--json", "--rounds", rounds, *arguments)
    assert done.stdout, done.stderr
    report = json.loads(done.stdout)
    store = report["stores"][0]
    verdicts = {verdict["application"]: verdict for verdict in store["verdicts"]}
    return done.returncode, verdicts, {check["check"]: check for check in store["checks"]}


def violated(checks):
    # `plimsoll serve` has neither tags, encryption, versions nor locks.
    lacks = {"tags", "server-side-encryption", "versioning", "object-lock"}
    return {name for name, check in checks.items() if check["outcome"] == "violated"} - lacks


def objects(url):
    s3 = boto3.client("s3", endpoint_url=url, aws_access_key_id=ACCESS, aws_secret_access_key=SECRET,
                      region_name="us-east-1")
    keys = [entry["Key"] for entry in s3.list_objects_v2(Bucket="bucket1").get("Contents", [])]
    return keys + [upload["Key"] for upload in s3.list_multipart_uploads(Bucket="bucket1").get("Uploads", [])]


def test_a_right_store_fits_all_applications_and_keeps_no_object(tmp_path):
    with Server() as server:
        code, verdicts, checks = judge(server.url, "--for", "all", rounds=20)
        assert (code, violated(checks)) == (0, set())
        assert {verdict["fitness"] for verdict in verdicts.values()} == {"fit"} and len(verdicts) == 16
        assert objects(server.url) == []


@pytest.mark.parametrize("faults", ["error=0.05", "reset=0.02", "truncate=0.02,latency=1ms"])
def test_failures_of_requests_are_no_violations(faults):
    with Server("--inject", faults) as server:
        _, verdicts, checks = judge(server.url, "--for", "all")
        assert violated(checks) == set()
        assert "unfit" not in {verdict["fitness"] for verdict in verdicts.values()}


DEFECTS = [
    # Fault, application that it breaks, check that names it, and an application that still fits.
    ("lost-conditional=1", "opentofu", "create-once", "restic"),
    ("lost-conditional=1", "elasticsearch", "replace-once", "velero"),
    ("torn-overwrite=1", "terraform", "atomic-overwrite", "restic"),
    ("stale-list=100ms", "velero", "list-after-write", "opentofu"),
    ("stale=100ms", "nix", "read-after-write", "fluent-bit"),
    ("wrong-range=1", "restic", "range", "opentofu"),
    ("lowercase-headers=1", "fluent-bit", "header-case", "restic"),
]


@pytest.mark.parametrize("fault,broken,check,fits", DEFECTS)
def test_a_defect_is_named_by_the_application_that_it_breaks(fault, broken, check, fits):
    with Server("--inject", fault) as server:
        code, verdicts, checks = judge(server.url, "--for", f"{broken},{fits}")
        assert code == 1
        assert verdicts[broken]["fitness"] == "unfit" and check in verdicts[broken]["violated"], verdicts[broken]
        assert verdicts[fits]["fitness"] == "fit", verdicts[fits]
        shown = checks[check]
        assert shown["detail"] and shown["exchanges"], shown
        done = run(server.url, "--for", broken, "--rounds", 5)
        first = done.stdout.splitlines()[0]
        assert first.startswith("unfit: ") and check in first, done.stdout
        assert f"\n{check}: {shown['detail'][:5]}" in done.stdout and "Source: https://" in done.stdout
        assert done.returncode == 1 and check in done.stderr


def test_a_late_listing_is_not_taken_for_another_defect():
    """Regression test: a store with late listings was accused of wrong pages, orders and sizes."""
    with Server("--inject", "stale-list=100ms") as server:
        _, _, checks = judge(server.url, "--for", "all", rounds=3)
        assert violated(checks) - {"list-after-delete"} == {"list-after-write"}


@contextlib.contextmanager
def proxy(server, change):
    """Serves what the server answers, or what change(method, path, status) makes of it: a status and headers to drop."""
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def forward(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            connection = http.client.HTTPConnection(server.url.removeprefix("http://"))
            connection.request(self.command, self.path, body, dict(self.headers))
            answer = connection.getresponse()
            content, headers = answer.read(), dict(answer.headers)
            connection.close()
            status, dropped = change(self.command, self.path, answer.status)
            if status != answer.status:
                content, headers = b"<Error><Code>AccessDenied</Code></Error>", {}
                headers["Content-Length"] = str(len(content))
            self.send_response_only(status)
            for name, value in headers.items():
                if name not in dropped:
                    self.send_header(name, value)
            self.end_headers()
            self.wfile.write(b"" if self.command == "HEAD" else content)

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = forward

        def log_message(self, *_):
            pass

    listener = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=listener.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{listener.server_port}"
    listener.shutdown()
    listener.server_close()


def test_denied_access_is_no_violation():
    """Regression test: credentials without the right to list get 403 for a missing key, and the store was unfit."""
    def without_list(_, path, status):
        return (403, ()) if status == 404 and "/probe/" in path else (status, ())

    with Server() as server, proxy(server, without_list) as url:
        _, verdicts, checks = judge(url, "--for", "opentofu,restic", rounds=2)
        assert violated(checks) == set() and checks["missing-object"]["outcome"] == "inconclusive"
        assert {verdict["fitness"] for verdict in verdicts.values()} == {"inconclusive"}


def test_a_missing_length_is_not_a_late_write():
    """Regression test: HEAD answers without Content-Length were taken for empty objects."""
    def without_length(method, _, status):
        return status, ("Content-Length", "content-length") if method == "HEAD" else ()

    with Server() as server, proxy(server, without_length) as url:
        _, _, checks = judge(url, "--for", "opentofu", rounds=2)
        assert violated(checks) == set()


def test_the_verdict_is_printed_although_the_clean_up_fails():
    """Regression test: a server that ended during the checks left no output."""
    def without_deletes(method, path, status):
        return (500, ()) if method == "POST" and "delete" in path else (status, ())

    with Server() as server, proxy(server, without_deletes) as url:
        done = run(url, "--for", "nix", "--rounds", 2, "--timeout", "2s")
        assert done.returncode == 3 and "clean-up failed" in done.stderr, done.stderr
        assert done.stdout.startswith("fit: "), done.stdout


def test_an_own_file_adds_an_application(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text('title = "My program"\nurl = "https://example.com"\n\n[[requirement]]\ncheck = "range"\n'
                    'reason = "It reads ranges."\nsource = "https://example.com/code"\n')
    with Server() as server:
        code, verdicts, checks = judge(server.url, "--for", file)
        assert code == 0 and list(verdicts) == ["mine"] and list(checks) == ["range"]
        file.write_text(file.read_text().replace('"range"', '"ranges"'))
        done = run(server.url, "--for", file)
        assert done.returncode == 2 and f"{file}:5: unknown variant `ranges`" in done.stderr, done.stderr


@pytest.mark.parametrize("arguments,message", [
    (["--for", "opentofuu"], "unknown application; use all, a file such as ./my-app.toml, or delta,"),
    (["--for", "./none.toml"], "No such file"),
    (["--large"], "--for"),
    (["--for", "nix", "--policy"], "cannot be used with"),
    (["--for", "nix", "--rounds", "0"], "--rounds"),
])
def test_wrong_arguments_are_refused_before_a_request(arguments, message):
    done = run("http://127.0.0.1:1", *arguments)
    assert done.returncode == 2 and message in done.stderr, done.stderr


def test_stores_without_the_s3_api_are_refused():
    for store in ["memory:", "embedded:"]:
        done = subprocess.run([PLIMSOLL, "probe", store, "--for", "nix"], env=environment(),
                              capture_output=True, text=True)
        assert done.returncode == 2 and "S3 API" in done.stderr


def gateway_table(directory):
    """Returns what `probe --for all --format markdown` prints about the gateway, without its address."""
    with Server("--data", str(directory), command=(GATEWAY, "run")) as server:
        done = run(server.url, "--for", "all", "--rounds", 20, "--format", "markdown")
        assert "### Fitness of" in done.stdout, done.stderr
        name = re.escape(f"s3://bucket1?endpoint={server.url}")
        assert objects(server.url) == []
        table = re.sub(name, "plimsoll-gateway", done.stdout).split("\n", 2)[2]
        return table.split("\n- ")[0].strip()


def test_the_table_of_the_gateway_in_the_documentation_is_right(tmp_path):
    """UPDATE_TABLES=1 writes it."""
    table = gateway_table(tmp_path)
    with open(TABLE) as file:
        text = file.read()
    begin, end = "<!-- gateway -->\n", "<!-- end of gateway -->\n"
    head, rest = text.split(begin)
    old, tail = rest.split(end)
    if os.environ.get("UPDATE_TABLES"):
        with open(TABLE, "w") as file:
            file.write(f"{head}{begin}{table}\n{end}{tail}")
        return
    assert old.strip() == table, "set UPDATE_TABLES=1 to write docs/compatibility.md"
