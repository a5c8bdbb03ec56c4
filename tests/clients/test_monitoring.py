"""The dashboard and the alert rules of the gateway, with a real Prometheus."""
import json
import os
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request

import pytest

from support import GATEWAY, ROOT, Server
from test_journal import object_store, settings as journaled
from test_standby import standby
from test_certificate import serve_tls
from test_tiers import BLOB, PACK, client, rule, settings, wait

MONITORING = os.path.join(ROOT, "docs", "monitoring")
pytestmark = [pytest.mark.skipif(not os.path.exists(GATEWAY), reason="plimsoll-gateway is not built"),
              pytest.mark.skipif(not shutil.which("prometheus"), reason="prometheus is not installed")]


class Prometheus:
    def __init__(self, directory, target):
        config = directory / "prometheus.yml"
        config.write_text(json.dumps({
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [os.path.join(MONITORING, "alerts.yml")],
            "scrape_configs": [{"job_name": "plimsoll-gateway", "static_configs": [{"targets": [target]}]}]}))
        log = directory / "prometheus.log"
        self.process = subprocess.Popen(
            ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={directory}/tsdb",
             "--web.listen-address=127.0.0.1:0"], stderr=log.open("w"))
        wait(lambda: "Listening on" in log.read_text(), "prometheus does not start")
        line = next(line for line in log.read_text().splitlines() if "Listening on" in line)
        self.url = "http://" + line.split("address=")[1].split()[0]
        wait(self.is_ready, "prometheus is not ready")

    def is_ready(self):
        try:
            return urllib.request.urlopen(f"{self.url}/-/ready").status == 200
        except urllib.error.HTTPError:
            return False

    def query(self, expression):
        parameters = urllib.parse.urlencode({"query": expression})
        with urllib.request.urlopen(f"{self.url}/api/v1/query?{parameters}") as answer:
            return json.load(answer)["data"]["result"]

    def rules(self):
        with urllib.request.urlopen(f"{self.url}/api/v1/rules") as answer:
            return [one for group in json.load(answer)["data"]["groups"] for one in group["rules"]]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def queries():
    with open(os.path.join(MONITORING, "grafana.json")) as file:
        panels = json.load(file)["panels"]
    for panel in panels:
        for target in panel["targets"]:
            yield panel["title"], target["expr"].replace("$__rate_interval", "20s").replace("$bucket", ".*")


def add_prices(path):
    with open(path) as file:
        text = file.read()
    for tier, offer in (("hot", "aws-s3-express@us-east-1"), ("cold", "cloudflare-r2")):
        text = text.replace(f"[tier.{tier}]\n", f'[tier.{tier}]\noffer = "{offer}"\n')
    with open(path, "w") as file:
        file.write(text)


def test_every_panel_shows_something_and_no_alert_fires(tmp_path):
    path = settings(tmp_path, moves=PACK + rule(when="suffix = 'c'"))
    add_prices(path)
    with Server(path, "--move-every", "200ms", "--metrics-listen", "127.0.0.1:0", command=(GATEWAY, "run")) as server:
        s3 = client(server)
        s3.create_bucket(Bucket="tiers")
        target = server.metrics.removeprefix("http://").removesuffix("/metrics")
        with Prometheus(tmp_path, target) as prometheus:
            # A count that appears with its first value has no rate.
            wait(lambda: prometheus.query("plimsoll_gateway_leader == 1"), "no scrape")

            def load(round):
                for key, body in ((f"{round}c", b"x" * BLOB), (f"{round}", b"x" * 5000)):
                    s3.put_object(Bucket="tiers", Key=key, Body=body)
                    s3.get_object(Bucket="tiers", Key=key)["Body"].read()
                time.sleep(0.2)

            empty = list(queries())
            for round in range(100):
                load(round)
                empty = [(title, query) for title, query in empty if not prometheus.query(query)]
                if not empty:
                    break
            assert not empty, empty
            saved = [query for title, query in queries() if title.startswith("Savings")]
            assert len(prometheus.query(saved[0])) == 1
            costs = {one["metric"]["bucket"] for one in prometheus.query("plimsoll_gateway_tier_request_dollars_total > 0")}
            assert costs == {"tiers", "(background)"}
            assert {one["health"] for one in prometheus.rules()} == {"ok"}
            # Whether a disk fills up depends on the machine of this test; alerts_test.yml has the values of these rules.
            alerts = [one["name"] for one in prometheus.rules() if one["state"] != "inactive"]
            assert not set(alerts) - {"GatewayDiskFilling", "GatewayTierFilling"}


PAGE = os.path.join(ROOT, "docs", "operations", "monitoring.md")


def metrics_of(text):
    """Returns the labels and the help of all metrics of a scrape, by name."""
    found = {}
    for name, meaning in re.findall(r"^# HELP plimsoll_gateway_(\w+) (.*)$", text, re.M):
        samples = re.findall(rf"^plimsoll_gateway_{name}(?:_total|_count)?(?:{{([^}}]*)}})? ", text, re.M)
        assert samples, f"{name} has no value"
        labels = ", ".join(f"`{label}`" for label in re.findall(r'(\w+)="', samples[0])) or "-"
        found[name] = (labels, meaning.rstrip(".").replace("|", "/"))
    return found


def test_the_page_has_every_metric_and_every_alert(tmp_path):
    """With UPDATE_METRICS=1, the labels and meanings of the page are written again."""
    path = settings(tmp_path, moves=PACK + rule(when="suffix = 'c'") + '[scrub]\nevery = "1d"\n' +
                    f'[backup]\nto = "file://{tmp_path}/backup"\nevery = "1s"\n', retain="1h")
    add_prices(path)
    with Server(path, "--move-every", "50ms", "--metrics-listen", "127.0.0.1:0", command=(GATEWAY, "run")) as server:
        s3 = client(server)
        s3.create_bucket(Bucket="tiers")
        for key in ("ac", "b"):
            s3.put_object(Bucket="tiers", Key=key, Body=b"x" * BLOB)
            s3.get_object(Bucket="tiers", Key=key)["Body"].read()
        s3.delete_object(Bucket="tiers", Key="b")
        subprocess.run([GATEWAY, "backup", path, "--done", "1m"], check=True, capture_output=True)
        scrape = lambda: urllib.request.urlopen(server.metrics).read().decode()
        needed = ['kept_bytes{tier="hot"}', "backup_newest_timestamp_seconds ", 'tier_blobs{tier="cold"}', "scrub_age_seconds ", "waiting_moves ",
                  'tier_request_dollars_total{tier="cold"']
        wait(lambda: all(f"plimsoll_gateway_{one}" in scrape() for one in needed), "all metrics have a value")
        found = metrics_of(scrape().replace("plimsoll_gateway_tier_errors_total 0", ""))
    # A journal needs an object store.
    with object_store() as store, Server(journaled(tmp_path / "machine", store), "--metrics-listen", "127.0.0.1:0",
                                         command=(GATEWAY, "run")) as server:
        with standby(journaled(tmp_path / "standby", store), store, "--metrics-listen", "127.0.0.1:0") as second:
            texts = [urllib.request.urlopen(url).read().decode() for url in [server.metrics, second.metrics]]
        lines = [line for text in texts for line in text.splitlines() if re.search("_journal_|_standby_", line)]
        found |= metrics_of("".join(f"{line}\n" for line in lines))
    with serve_tls(tmp_path) as server:
        lines = [line for line in urllib.request.urlopen(server.metrics).read().decode().splitlines() if "_certificate_" in line]
        found |= metrics_of("".join(f"{line}\n" for line in lines))
    with open(PAGE) as file:
        page = file.read()
    before, table = page.split("| --- | --- | --- | --- | --- |\n")
    rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in table.strip().splitlines()]
    if os.environ.get("UPDATE_METRICS"):
        kept = {row[0].strip("` "): row[3:] for row in rows}
        lines = ["| " + " | ".join([f"`{name}`", *found[name], *kept.get(name, ("", ""))]).strip() + " |\n" for name in found]
        with open(PAGE, "w") as file:
            file.write(before + "| --- | --- | --- | --- | --- |\n" + "".join(lines))
        return
    shown = {row[0].strip("` "): (row[1].strip(), row[2].strip()) for row in rows}
    assert shown == found
    assert all(len(row) == 5 and row[3].strip() and row[4].strip() for row in rows), "a metric has no healthy value"
    with open(os.path.join(MONITORING, "alerts.yml")) as file:
        alerts = re.findall(r"- alert: (\w+)", file.read())
    assert sorted(alerts) == sorted(re.findall(r"^### (\w+)$", page, re.M))
    with open(os.path.join(ROOT, "tests", "clients", "alerts_test.yml")) as file:
        tested = file.read()
    assert all(f"alertname: {alert}\n" in tested for alert in alerts)


@pytest.mark.parametrize("name", ["alerts", "canary"])
def test_the_alerts_fire(name, tmp_path):
    shutil.copy(os.path.join(MONITORING, f"{name}.yml"), tmp_path)
    shutil.copy(os.path.join(ROOT, "tests", "clients", f"{name}_test.yml"), tmp_path)
    result = subprocess.run(["promtool", "test", "rules", f"{name}_test.yml"], cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
