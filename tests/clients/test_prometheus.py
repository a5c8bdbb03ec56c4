"""Metrics for Prometheus: `promtool` reports no problems, and a real Prometheus scrapes them."""

import json
import shutil
import subprocess
import time
import urllib.error
import urllib.request

import pytest

from support import PLIMSOLL, Server, environment

GET = 'operation="get"'


def scrape(url, accept="application/openmetrics-text"):
    with urllib.request.urlopen(urllib.request.Request(url, headers={"Accept": accept})) as answer:
        return answer.headers["Content-Type"], answer.read().decode()


class Running:
    """A run that lasts until it is interrupted. `metrics` is the URL of its metrics."""

    def __init__(self, store, out):
        self.process = subprocess.Popen(
            [PLIMSOLL, "run", "get", "--store", store, "--create-bucket", "--duration", "10m", "--warmup", "0s", "--rate", "100/s",
             "--metrics-listen", "127.0.0.1:0", "--out", str(out)],
            env=environment(), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        self.metrics = next(line for line in self.process.stderr if line.startswith("metrics on")).split()[-1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(2)
        assert self.process.wait(timeout=30) == 130


def until(find, name):
    """Calls `find` until it returns something, for at most a minute. Counts are updated once a second."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        answer = find()
        if answer:
            return answer
    pytest.fail(f"no {name} within a minute")


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A run in progress that has operations, and its server: the URLs of their metrics."""
    with Server("--metrics-listen", "127.0.0.1:0") as server:
        url = server.metrics or server.process.stdout.readline().split()[-1]
        with Running(f"s3://bench/?endpoint={server.url}&provider=aws-s3&style=path", tmp_path_factory.mktemp("runs")) as run:
            until(lambda: GET in scrape(run.metrics)[1], "operations")
            yield run.metrics, url


def test_the_metrics_of_runs_and_servers_can_be_scraped(measured):
    metrics, url = measured
    cost = until(lambda: next((t for _, t in [scrape(metrics)] if "plimsoll_cost_usd_total{" in t), None), "cost")
    assert 'provider="aws-s3",emulated="true"' in cost
    text = scrape(metrics)[1]
    assert text.endswith("# EOF\n")
    for name in ("plimsoll_operations_total", "plimsoll_object_bytes_total", "plimsoll_service_seconds_bucket",
                 "plimsoll_response_seconds_sum"):
        assert name in text, name
    counts = [float(line.rsplit(" ", 1)[1]) for line in text.splitlines()
              if line.startswith("plimsoll_service_seconds_bucket") and GET in line]
    assert counts and counts[-1] > 0
    kind, served = scrape(url)
    assert kind.startswith("application/openmetrics-text") and "plimsoll_server_requests_total" in served
    with pytest.raises(urllib.error.HTTPError, match="404"):
        scrape(metrics.replace("/metrics", "/else"))


@pytest.mark.skipif(not shutil.which("promtool"), reason="promtool is not installed")
def test_promtool_reports_no_problems(measured):
    for url in measured:
        # It does not accept the end marker `# EOF`.
        figures = scrape(url)[1].replace("# EOF\n", "")
        done = subprocess.run(["promtool", "check", "metrics"], input=figures, capture_output=True, text=True)
        problems = [line for line in (done.stdout + done.stderr).splitlines() if line and "no help text" not in line]
        assert done.returncode == 0 or not problems, problems


@pytest.mark.skipif(not shutil.which("prometheus"), reason="prometheus is not installed")
def test_a_real_prometheus_scrapes_a_run(measured, tmp_path):
    folder, target = tmp_path, measured[0].split("/")[2]
    (folder / "prometheus.yml").write_text(
        f"global: {{scrape_interval: 1s}}\nscrape_configs: [{{job_name: plimsoll, static_configs: [{{targets: ['{target}']}}]}}]\n")
    process = subprocess.Popen(
        ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data", "--web.listen-address=127.0.0.1:0"],
        stderr=subprocess.PIPE, text=True)
    try:
        address = next(line for line in process.stderr if "Listening on" in line and "address=" in line).split("address=")[1].split()[0]
        query = f"http://{address}/api/v1/query?query=plimsoll_operations_total"

        def answer():
            try:
                return json.load(urllib.request.urlopen(query))["data"]["result"]
            except (urllib.error.URLError, ConnectionError):
                return None

        found = until(answer, "answer of Prometheus")
        assert any(r["metric"]["operation"] == "get" for r in found), found
    finally:
        process.terminate()
        process.wait()
