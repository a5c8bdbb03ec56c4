"""Metrics sent to collectors (`run --metrics-to`), decoded by the protocols' own libraries."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from google.protobuf import json_format
from line_protocol_parser import parse_line
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

import subprocess

from support import PLIMSOLL, Server, environment


class Collector:
    """An HTTP server that keeps what it receives."""

    def __init__(self, status=200):
        received = self.received = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                received.append((self.path, dict(self.headers.items()), body.decode()))
                self.send_response(status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()


@pytest.fixture()
def collector():
    collector = Collector()
    yield collector
    collector.close()


def run(tmp_path, *options, **variables):
    with Server("--inject", "error=0.2") as server:
        return subprocess.run(
            [PLIMSOLL, "run", "put", "--operations", "200", "--warmup", "0", "--size", "1KiB", "--create-bucket",
             "--store", f"s3://bench/with space?endpoint={server.url}", "--out", str(tmp_path), "--no-report", "--quiet",
             *options], capture_output=True, text=True, env=environment(**variables))


def test_opentelemetry_metrics_decode_and_count_every_operation(tmp_path, collector):
    done = run(tmp_path, "--metrics-to", f"otlp+http://{collector.address}",
               OTEL_EXPORTER_OTLP_HEADERS="x-token=secret-value")
    assert done.returncode == 0, done.stderr
    path, headers, body = collector.received[-1]
    assert path == "/v1/metrics" and headers["content-type"] == "application/json"
    assert headers["x-token"] == "secret-value" and "secret-value" not in done.stderr
    request = json_format.Parse(body, ExportMetricsServiceRequest())
    [resource] = request.resource_metrics
    assert [a.value.string_value for a in resource.resource.attributes if a.key == "service.name"] == ["plimsoll"]
    metrics = {metric.name: metric for metric in resource.scope_metrics[0].metrics}
    point = metrics["plimsoll.operations"].sum.data_points[0]
    failed = sum(p.as_int for p in metrics["plimsoll.failed_operations"].sum.data_points)
    assert metrics["plimsoll.operations"].sum.is_monotonic and point.as_int + failed == 200 and failed > 0
    assert 0 < point.start_time_unix_nano < point.time_unix_nano
    labels = {a.key: a.value.string_value for a in point.attributes}
    assert labels["operation"] == "put" and labels["role"] == "measure"
    assert metrics["plimsoll.object_bytes"].sum.data_points[0].as_double == point.as_int * 1024
    histogram = metrics["plimsoll.service_time"].histogram.data_points[0]
    assert histogram.count == sum(histogram.bucket_counts) == point.as_int
    assert len(histogram.bucket_counts) == len(histogram.explicit_bounds) + 1 and histogram.sum > 0


def test_influxdb_lines_parse_and_count_every_operation(tmp_path, collector):
    done = run(tmp_path, "--metrics-to", f"influx+http://{collector.address}/api/v2/write?org=o&bucket=b",
               INFLUX_TOKEN="secret-value")
    assert done.returncode == 0, done.stderr
    path, headers, body = collector.received[-1]
    assert path == "/api/v2/write?org=o&bucket=b" and headers["authorization"] == "Token secret-value"
    lines = [parse_line(line) for line in body.splitlines()]
    [counts] = [line for line in lines if line["measurement"] == "plimsoll"]
    assert counts["tags"]["operation"] == "put" and "with space" in counts["tags"]["store"]
    failed = sum(line["fields"]["count"] for line in lines if line["measurement"] == "plimsoll_failed")
    assert counts["fields"]["operations"] + failed == 200 and failed > 0
    buckets = [line for line in lines if line["measurement"] == "plimsoll_service" and "le" in line["tags"]]
    values = [line["fields"]["count"] for line in buckets]
    assert values == sorted(values) and buckets[-1]["tags"]["le"] == "+Inf"
    assert values[-1] == counts["fields"]["operations"]


@pytest.mark.parametrize("status", [503, None])
def test_a_collector_that_fails_does_not_fail_the_run(tmp_path, status):
    collector = Collector(status or 200)
    if status is None:
        collector.server.shutdown()
        collector.server.server_close()
    done = run(tmp_path, "--metrics-to", f"otlp+http://{collector.address}")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("--metrics-to") == 1 and "the run continues" in done.stderr, done.stderr


def test_a_url_that_is_no_collector_is_refused(tmp_path):
    done = run(tmp_path, "--metrics-to", "http://127.0.0.1:9090")
    assert done.returncode == 2 and "write otlp+http://" in done.stderr, done.stderr
