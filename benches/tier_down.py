#!/usr/bin/env python3
"""One of two tiers does not answer for a time: latency of reads from the other tier before, during and after, and the
statuses of reads from the one that is down.

    PATH=$PATH:~/go/bin benches/tier_down.py --seconds 60
"""
import argparse
import collections
import json
import os
import shutil
import signal
import statistics
import tempfile
import threading
import time

from moves import gateway
from packing import Backend, stop
from servers import ACCESS, SECRET


def client(port):
    import boto3
    from botocore.config import Config
    return boto3.session.Session().client(
        "s3", endpoint_url=f"http://127.0.0.1:{port}", aws_access_key_id=ACCESS, aws_secret_access_key=SECRET, region_name="us-east-1",
        config=Config(retries={"max_attempts": 1}, read_timeout=120))


class Reader(threading.Thread):
    """Reads an object a hundred times a second, and records times and statuses by phase."""

    def __init__(self, port, key, rate):
        super().__init__(daemon=True)
        self.port, self.key, self.rate = port, key, rate
        self.stopped = False
        self.phase, self.seconds, self.statuses = None, collections.defaultdict(list), collections.defaultdict(collections.Counter)

    def run(self):
        from botocore.exceptions import ClientError
        s3, due = client(self.port), time.time()
        while not self.stopped:
            due += 1 / self.rate
            time.sleep(max(0, due - time.time()))
            phase, begin = self.phase, time.time()
            try:
                s3.get_object(Bucket="down", Key=self.key)["Body"].read()
                status = 200
            except ClientError as error:
                status = error.response["ResponseMetadata"]["HTTPStatusCode"]
            # From the time that the read was due, so that stalls count.
            self.seconds[phase].append(time.time() - min(begin, due))
            self.statuses[phase][status] += 1


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--stop", action="store_true", help="stop the tier instead of killing it: connections hang")
    options = parser.parse_args()
    base = tempfile.mkdtemp(dir=os.environ.get("DATA", "/var/tmp"))
    hot, cold = Backend(f"{base}/hot"), Backend(f"{base}/cold")
    rules = '[cache]\nmemory = "0 B"\n[[move]]\nfrom = "hot"\nto = "cold"\nwhen = "prefix = \'cold\'"\nkeep_source = "0s"\n'
    process, port, metrics = gateway(base, hot, cold, rules)
    s3 = client(port)
    s3.create_bucket(Bucket="down")
    for key in ("hot", "cold"):
        s3.put_object(Bucket="down", Key=key, Body=os.urandom(100_000))
    time.sleep(15)
    readers = [Reader(port, key, 100) for key in ("hot", "cold")]
    for reader in readers:
        reader.start()
    for phase in ("before", "down", "after"):
        if phase == "down":
            cold.process.send_signal(signal.SIGSTOP if options.stop else signal.SIGKILL)
        if phase == "after":
            if options.stop:
                cold.process.send_signal(signal.SIGCONT)
            else:
                cold.process.wait()
                cold.process = cold.start()
        for reader in readers:
            reader.phase = phase
        time.sleep(options.seconds)
    for reader in readers:
        reader.stopped = True
        reader.join()
        for phase in ("before", "down", "after"):
            ms = sorted(1000 * s for s in reader.seconds[phase])
            print(reader.key, phase, json.dumps({"statuses": dict(reader.statuses[phase]), "p50_ms": round(statistics.median(ms), 2),
                                                 "p99_ms": round(ms[len(ms) * 99 // 100], 2)}), flush=True)
    for one in (process, hot.process, cold.process):
        stop(one)
    shutil.rmtree(base, ignore_errors=True)


if __name__ == "__main__":
    main()
