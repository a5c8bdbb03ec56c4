#!/usr/bin/env python3
"""Three gateways on one catalog in PostgreSQL behind a load balancer: one of them is killed and started again every 20
seconds, while a client writes, reads, verifies and deletes objects with up to three retries, and objects move.

    PATH=$PATH:~/go/bin benches/rolling.py --minutes 10

Needs PostgreSQL, HAProxy and versitygw.
"""
import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from packing import Backend, ENV, stop
from placing_kills import Process
from servers import GATEWAY, PLIMSOLL, free_port

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "clients"))
from postgres import Postgres  # noqa: E402


def settings(base, database, hot, cold):
    path = f"{base}/gateway.toml"
    with open(path, "w") as f:
        f.write(f'[catalog]\nurl = "{database.url}"\n[tier.hot]\n'
                f'url = "s3://backend/tier?endpoint=http://127.0.0.1:{hot.port}"\n[tier.cold]\n'
                f'url = "s3://backend/tier?endpoint=http://127.0.0.1:{cold.port}"\n[retain]\ndeleted = "0s"\n[write]\ntier = "hot"\ninline = "4 KiB"\n'
                '[pack]\ntier = "hot"\nmax_body = "64 KiB"\nmin_age = "1s"\nmax_wait = "1s"\n'
                '[[move]]\nfrom = "hot"\nto = "cold"\nwhen = "age > 5s"\nkeep_source = "10s"\n')
    return path


def balancer(base, ports):
    port, path = free_port(), f"{base}/haproxy.cfg"
    servers = "".join(f"  server g{n} 127.0.0.1:{p} check inter 500ms fall 1 rise 1 on-marked-down shutdown-sessions\n"
                      for n, p in enumerate(ports))
    with open(path, "w") as f:
        f.write("defaults\n  mode tcp\n  timeout connect 2s\n  timeout client 60s\n  timeout server 60s\n  retries 3\n  option redispatch 1\n"
                f"listen gateways\n  bind 127.0.0.1:{port}\n  balance leastconn\n{servers}")
    return subprocess.Popen(["haproxy", "-f", path]), port


def load(base, port, minutes, operations, name):
    """Starts a client. Returns its process."""
    mix = ", ".join(f"{operation} = {weight}" for operation, weight in operations.items())
    with open(f"{base}/{name}.toml", "w") as f:
        f.write(f'name = "{name}"\n[[phase]]\nname = "objects"\nrole = "prepare"\noperations = {{ put = 1 }}\n'
                f'objects = {{ count = 500, size = {{ uniform = ["4 KiB", "200 KiB"] }} }}\nconcurrency = 8\n'
                f'[[phase]]\nname = "measured"\noperations = {{ {mix} }}\nobjects = {{ from = "objects" }}\n'
                f'retries = 3\nconcurrency = 8\nduration = "{minutes}m"\n')
    store = f"s3://rolling/{name}?endpoint=http://127.0.0.1:{port}"
    return subprocess.Popen([PLIMSOLL, "run", f"{base}/{name}.toml", "--store", store, "--create-bucket", "--json", "--out", f"{base}/{name}"],
                            env=ENV, stdout=open(f"{base}/{name}.json", "w"), stderr=open(f"{base}/{name}.err", "w"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=int, default=10)
    parser.add_argument("--every", type=int, default=20)
    parser.add_argument("--term", action="store_true", help="restart with SIGTERM instead of SIGKILL")
    options = parser.parse_args()
    base, chance = tempfile.mkdtemp(dir=os.environ.get("DATA", "/var/tmp")), random.Random(1)
    with Postgres() as database:
        hot, cold = Backend(f"{base}/hot"), Backend(f"{base}/cold")
        path = settings(base, database, hot, cold)
        gateways = []
        for _ in range(3):
            port = free_port()
            gateways.append(Process([GATEWAY, "run", path, "--listen", f"127.0.0.1:{port}", "--move-every", "500ms"], port, ENV))
        time.sleep(2)
        proxy, port = balancer(base, [gateway.port for gateway in gateways])
        time.sleep(2)
        clients = {"mixed": load(base, port, options.minutes, {"put": 3, "get": 6, "delete": 1}, "mixed")}
        restarts, due = 0, time.time() + options.every
        while any(process.poll() is None for process in clients.values()):
            time.sleep(0.5)
            if time.time() > due:
                due += options.every
                restarts += 1
                victim = chance.choice(gateways)
                if options.term:
                    victim.process.send_signal(signal.SIGTERM)
                    victim.process.wait()
                else:
                    victim.kill()
                victim.start()
        for name in clients:
            text = open(f"{base}/{name}.json").read()
            if not text.strip():
                print(open(f"{base}/{name}.err").read()[-2000:])
                continue
            for window in json.loads(text)["windows"]:
                print(name, window["phase"], json.dumps({key: window.get(key) for key in ("operations", "errors", "retries", "service_ms")}))
        print("restarts", restarts)
        time.sleep(20)
        for command in (["status"], ["scrub"], ["sweep", "--older-than", "0s", "--max-share", "100"]):
            result = subprocess.run([GATEWAY, command[0], path, *command[1:], "--json"], env=ENV, capture_output=True, text=True)
            print(command[0], result.stdout.strip()[-600:], result.stderr.strip()[-300:])
        for gateway in gateways:
            gateway.kill()
        proxy.kill()
        stop(hot.process)
        stop(cold.process)
    shutil.rmtree(base, ignore_errors=True)


if __name__ == "__main__":
    main()
