#!/usr/bin/env python3
"""Measures the cost of the client and of the embedded server, in turns with wrk, each pinned to one core.

    make bench                # builds, then runs this bench first; about ten minutes
    python3 benches/run.py --only get-1k --runs 3

The cost of an operation is the user and system time of the whole process, including start and clean-up, divided by the
number of measured operations. Ratios are medians over pairs of consecutive runs. Needs wrk, nginx and taskset.
With PERFORMANCE=write, it writes the tables of the sections that it measured as a whole into docs/performance.md, such as
that of `--only server`.
"""
import argparse
import datetime
import hashlib
import hmac
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

import performance

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PLIMSOLL = os.path.join(ROOT, "target", "dist", "plimsoll")
FLOOR = os.path.join(ROOT, "target", "dist", "floor")
ACCESS, SECRET, BUCKET = "bench", "bench-secret", "bench"
SERVER_CORE, CLIENT_CORE = "0", "1"
rows = []


def presigned(endpoint, method, path, expires=86400, query=()):
    """Returns a presigned URL (SigV4 in the query), because wrk cannot sign requests."""
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    scope = f"{now[:8]}/us-east-1/s3/aws4_request"
    host = endpoint.split("//")[1]
    pairs = sorted(list(query) + [
        ("X-Amz-Algorithm", "AWS4-HMAC-SHA256"), ("X-Amz-Credential", f"{ACCESS}/{scope}"), ("X-Amz-Date", now),
        ("X-Amz-Expires", str(expires)), ("X-Amz-SignedHeaders", "host")])
    encoded = "&".join(f"{k}={urllib.parse.quote(v, safe='-_.~')}" for k, v in pairs)
    canonical = f"{method}\n{path}\n{encoded}\nhost:{host}\n\nhost\nUNSIGNED-PAYLOAD"
    to_sign = f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    key = ("AWS4" + SECRET).encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    signature = hmac.new(key, to_sign.encode(), hashlib.sha256).hexdigest()
    return f"{endpoint}{path}?{encoded}&X-Amz-Signature={signature}"


class Server:
    """`plimsoll serve` on a dedicated core."""

    def __init__(self):
        env = dict(os.environ, PLIMSOLL_ACCESS_KEY=ACCESS, PLIMSOLL_SECRET_KEY=SECRET)
        self.process = subprocess.Popen(
            ["taskset", "-c", SERVER_CORE, PLIMSOLL, "serve", "--listen", "127.0.0.1:0", "--threads", "1"],
            env=env, stdout=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().split()[-1]
        self.request("PUT", f"/{BUCKET}")

    def request(self, method, path, body=None):
        request = urllib.request.Request(presigned(self.url, method, path), data=body, method=method)
        with urllib.request.urlopen(request) as answer:
            return answer.read()

    def cpu(self):
        """Returns the CPU time that the server has used, in seconds."""
        fields = open(f"/proc/{self.process.pid}/stat").read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def rss_mib(self):
        """Returns the resident memory of the server in MiB."""
        return int(re.search(r"VmRSS:\s+(\d+)", open(f"/proc/{self.process.pid}/status").read())[1]) / 1024

    def stop(self):
        self.process.terminate()
        self.process.wait()


# Starts a command and writes its exit code, CPU time and peak memory into a file. The peak of a process is at least that of
# the process that started it, so this bench must not start it itself.
STARTER = """import os, sys
pid = os.posix_spawnp(sys.argv[2], sys.argv[2:], os.environ)
_, status, usage = os.wait4(pid, 0)
with open(sys.argv[1], "w") as file:
    file.write(f"{os.waitstatus_to_exitcode(status)} {usage.ru_utime + usage.ru_stime} {usage.ru_maxrss}")
"""


def whole_process(command, env=None):
    """Runs a command; returns its output, its CPU time in seconds and its peak memory in MiB."""
    with tempfile.TemporaryFile("w+") as out, tempfile.NamedTemporaryFile("r") as usage:
        starter = ["taskset", "-c", CLIENT_CORE, sys.executable, "-S", "-E", "-c", STARTER, usage.name]
        subprocess.run(starter + command, env=env, stdout=out, check=True)
        out.seek(0)
        text = out.read()
        status, cpu_s, peak_kib = usage.read().split()
    if status != "0":
        sys.exit(f"{' '.join(command)} failed:\n{text}")
    return text, float(cpu_s), int(peak_kib) / 1024


def measure(server, form, *options):
    """Runs a short form; returns its operations, CPU time in seconds, peak memory in MiB, and its window."""
    env = dict(os.environ, AWS_ACCESS_KEY_ID=ACCESS, AWS_SECRET_ACCESS_KEY=SECRET, AWS_REGION="us-east-1")
    with tempfile.TemporaryDirectory() as out:
        text, cpu, rss = whole_process(
            [PLIMSOLL, "run", form, "--store", f"s3://{BUCKET}?endpoint={server.url}", "--json", "--out", out,
             "--warmup", "0s", *options], env)
    window = [w for w in json.loads(text)["windows"] if w["role"] == "measure"][0]
    assert not window["errors"], window["errors"]
    return window["operations"], cpu, rss, window


def wrk(server, path, seconds):
    """Runs wrk with a GET of an object; returns its operations and its CPU time in seconds."""
    return wrk_of(presigned(server.url, "GET", path), seconds)


def wrk_of(url, seconds):
    """Runs wrk with a URL; returns its operations and its CPU time in seconds."""
    text, cpu, _ = whole_process(["wrk", "-t1", "-c64", f"-d{seconds}s", url])
    assert "Non-2xx" not in text, text
    return int(re.search(r"(\d+) requests in", text)[1]), cpu


def row(name, bar, values, unit=""):
    """Prints the median of `values`, their range, and whether the median is within the limit `bar`; keeps the row."""
    middle = statistics.median(values)
    low, high = min(values), max(values)
    verdict = "" if bar is None else ("ok" if middle <= bar else "OVER")
    limit = "" if bar is None else f"<= {bar:g}"
    print(f"{name:52} {middle:9.2f} {unit:4} [{low:.2f} .. {high:.2f}]  {limit:8} {verdict}", flush=True)
    rows.append([name, f"{middle:.2f} {unit}".strip(), f"{low:.2f} .. {high:.2f}",
                 "-" if bar is None else f"{bar:g} {unit}".strip()])


def against_wrk(server, name, size, bar, runs, seconds, form, *options):
    """Measures the client CPU time per operation and its ratio to wrk's."""
    path = f"/{BUCKET}/wrk-{size}"
    server.request("PUT", path, os.urandom(size))
    ratios, client_us, wrk_us = [], [], []
    for _ in range(runs):
        operations, cpu = wrk(server, path, seconds)
        wrk_us.append(cpu / operations * 1e6)
        operations, cpu, _, _ = measure(server, form, "--size", f"{size}B", "--concurrency", "64", "--duration",
                                        f"{seconds}s", *options)
        client_us.append(cpu / operations * 1e6)
        ratios.append(client_us[-1] / wrk_us[-1])
    row(f"{name}: client CPU time per operation", None, client_us, "us")
    row(f"{name}: wrk, unsigned GET", None, wrk_us, "us")
    row(f"{name}: ratio to wrk", bar, ratios)


def floor(server, runs, seconds):
    """Measures the ratio to wrk of a bare loop that signs, times and compares each GET of 1 KiB (`floor`)."""
    server.request("PUT", f"/{BUCKET}/floor", b"x" * 1024)
    env = dict(os.environ, AWS_ACCESS_KEY_ID=ACCESS, AWS_SECRET_ACCESS_KEY=SECRET)
    ratios = []
    for _ in range(runs):
        operations, cpu = wrk(server, f"/{BUCKET}/floor", seconds)
        text, own, _ = whole_process([FLOOR, server.url.split("//")[1], BUCKET, "floor", str(seconds)], env)
        ratios.append(own / int(text.split()[0]) / (cpu / operations))
    row("GET 1 KiB, bare loop: ratio to wrk", None, ratios)


def server_cost(server, name, form, runs, seconds):
    """Measures the CPU time of the server per operation."""
    values = []
    for _ in range(runs):
        before = server.cpu()
        operations, _, _, _ = measure(server, form, "--concurrency", "64", "--duration", f"{seconds}s")
        values.append((server.cpu() - before) / operations * 1e6)
    row(name, 16, values, "us")


class Nginx:
    """nginx with a file of 1 KiB, one worker on the core of the server, and no access log."""

    def __init__(self):
        self.base = tempfile.TemporaryDirectory()
        # The worker runs as another user.
        os.chmod(self.base.name, 0o755)
        with open(f"{self.base.name}/file", "wb") as file:
            file.write(os.urandom(1024))
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        paths = "".join(f"{name}_temp_path {self.base.name}/{name};\n" for name in
                        ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        with open(f"{self.base.name}/nginx.conf", "w") as file:
            file.write(f"""daemon off; master_process off; pid {self.base.name}/pid; error_log {self.base.name}/errors;
events {{ worker_connections 1024; }}
http {{ access_log off; sendfile on; tcp_nopush on; keepalive_requests 1000000000; open_file_cache max=100; {paths}
server {{ listen 127.0.0.1:{self.port}; root {self.base.name}; }} }}""")
        self.process = subprocess.Popen(["taskset", "-c", SERVER_CORE, "nginx", "-c", f"{self.base.name}/nginx.conf"])
        while self.process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            except OSError:
                time.sleep(0.05)
        sys.exit("nginx does not start")

    def stop(self):
        self.process.terminate()
        self.process.wait()
        self.base.cleanup()


def cpu_ns(process):
    """Returns the CPU time of all threads of a process, in nanoseconds."""
    tasks = f"/proc/{process.pid}/task"
    return sum(int(open(f"{tasks}/{task}/schedstat").read().split()[0]) for task in os.listdir(tasks))


def against_nginx(server, runs, seconds):
    """Measures the CPU time of the server per GET of a presigned URL, and its ratio to that of nginx per GET of a file."""
    server.request("PUT", f"/{BUCKET}/nginx", os.urandom(1024))
    nginx = Nginx()
    ratios, nginx_us = [], []
    try:
        for _ in range(runs):
            took = []
            for process, url in ((nginx.process, f"http://127.0.0.1:{nginx.port}/file"),
                                 (server.process, presigned(server.url, "GET", f"/{BUCKET}/nginx"))):
                before = cpu_ns(process)
                operations, _ = wrk_of(url, seconds)
                took.append((cpu_ns(process) - before) / 1000 / operations)
            nginx_us.append(took[0])
            ratios.append(took[1] / took[0])
    finally:
        nginx.stop()
    row("nginx, CPU time per GET of a file of 1 KiB", None, nginx_us, "us")
    row("server GET 1 KiB, presigned: ratio to nginx", 1.25, ratios)


def memory(server, runs):
    """Measures the peak memory of short and long runs."""
    small = [measure(server, "get", "--operations", "100000", "--concurrency", "64")[2] for _ in range(runs)]
    large = [measure(server, "get", "--operations", "10000000", "--concurrency", "64")[2] for _ in range(1)]
    row("peak memory, 10^5 operations", 48, small, "MiB")
    row("peak memory, 10^7 operations", 48, large, "MiB")
    row("growth from 10^5 to 10^7 operations", 5, [large[0] - statistics.median(small)], "MiB")


def schedule(server, runs):
    """Measures the start lag of an open loop."""
    lags = [measure(server, "get", "--rate", "5000/s", "--duration", "10s")[3]["start_lag_ms"]["p99"]
            for _ in range(runs)]
    row("start lag p99 at 5,000/s", 0.5, lags, "ms")


def soak(server, minutes):
    """Measures how much the memory of the server grows under load."""
    before = server.rss_mib()
    for form in ("put", "get"):
        measure(server, form, "--concurrency", "64", "--duration", f"{minutes * 30}s")
    row(f"growth of server memory in {minutes} minutes at full rate", 5, [server.rss_mib() - before], "MiB")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--only", default="")
    parser.add_argument("--soak", type=int, default=0, metavar="MINUTES",
                        help="also load the server for this many minutes")
    arguments = parser.parse_args()
    runs, seconds = arguments.runs, arguments.seconds
    server = Server()
    k, m = 1024, 1 << 20
    # The benches, by the section of docs/performance.md that has their table.
    sections = {"client": {
        "floor": lambda: floor(server, runs, seconds),
        "get-1k": lambda: against_wrk(server, "GET 1 KiB, signed, verified", k, 1.5, runs, seconds, "get"),
        "put-1k": lambda: against_wrk(server, "PUT 1 KiB, signed payload", k, 1.7, runs, seconds, "put"),
        "get-1m-off": lambda: against_wrk(server, "GET 1 MiB, --verify off", m, 1.3, runs, seconds, "get",
                                          "--objects", "64", "--verify", "off"),
        "get-1m-on": lambda: against_wrk(server, "GET 1 MiB, verified", m, 1.7, runs, seconds, "get",
                                         "--objects", "64"),
    }, "server": {
        "server-get": lambda: server_cost(server, "server CPU time per GET of 1 KiB", "get", runs, seconds),
        "server-nginx": lambda: against_nginx(server, runs, seconds),
        "server-put": lambda: server_cost(server, "server CPU time per PUT of 1 KiB", "put", runs, seconds),
    }, "schedule": {
        "schedule": lambda: schedule(server, runs),
    }, "memory": {
        "memory": lambda: memory(server, runs),
    }}
    if arguments.soak:
        sections["soak"] = {"soak": lambda: soak(server, arguments.soak)}
    try:
        for section, benches in sections.items():
            rows.clear()
            selected = [bench for name, bench in benches.items() if arguments.only in name]
            for bench in selected:
                bench()
            if len(selected) == len(benches):
                performance.write(section, performance.table(["figure", "median", "range", "limit"], rows))
    finally:
        server.stop()


if __name__ == "__main__":
    main()
