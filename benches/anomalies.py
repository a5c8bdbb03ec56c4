#!/usr/bin/env python3
"""Checks which guarantee `plimsoll run consistency` blames for injected anomalies, and how rare ones it finds.

    anomalies.py [KIND ...] [--shares 0.01,0.001] [--seconds 20] [--times 3]
    anomalies.py serve KIND SHARE                # a store with the anomaly, until standard input closes

PLIMSOLL names the binary; the default is target/release/plimsoll.

Kinds, each in a share of the requests to which it applies:

    lost-put             a PUT is acknowledged and not stored
    lost-conditional     the same for a PUT with a condition
    lost-delete          a DELETE is acknowledged and has no effect
    stale-get            a GET returns the state before the last change
    stale-list           a listing shows the state before the last change
    missing-list         a listing lacks the object
    ignored-match        the condition If-Match is not checked
    ignored-none-match   the condition If-None-Match is not checked
    refused              a PUT is refused although its condition holds
    torn                 a GET returns half of the content before the last change, and half of the content after it
    none                 no anomaly
"""
import argparse
import asyncio
import hashlib
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
from urllib.parse import parse_qs, unquote

import limits

READS = {"read_after_put", "read_after_conditional_put", "read_after_delete"}
BLAMED = {
    "lost-put": {"read_after_put"},
    "lost-conditional": {"read_after_conditional_put"},
    "lost-delete": {"read_after_delete"},
    "stale-get": READS,
    "stale-list": {"list_after_put", "list_after_delete"},
    "missing-list": {"list_after_put"},
    "ignored-match": {"put_if_unchanged"},
    "ignored-none-match": {"put_if_absent"},
    "refused": {"put_if_unchanged", "put_if_absent"},
    "torn": READS,
    "none": set(),
}


class Connection(limits.Connection):
    """A connection to a store whose answers are wrong in a share of the requests."""

    limit = limits.Limit("none")
    kind, share, objects, before, injected = "none", 0.0, {}, {}, 0

    def wrong(self, kind):
        """Returns true if the request has the anomaly `kind`."""
        found = self.kind == kind and random.random() < self.share
        Connection.injected += found
        return found

    def change(self, path, content):
        self.before[path] = self.objects.get(path)
        if content is None:
            self.objects.pop(path, None)
        else:
            self.objects[path] = content

    def request(self, method, target, body, head=""):
        path, _, query = target.partition("?")
        path = unquote(path)
        is_object = path.strip("/").count("/") > 0
        if is_object and method == "PUT":
            self.put(path, body, head)
        elif is_object and method == "GET":
            content = self.objects.get(path)
            if self.wrong("stale-get"):
                content = self.before.get(path)
            elif content and self.before.get(path) and self.wrong("torn"):
                content = self.before[path][:20] + content[20:]
            self.reply(content)
        elif is_object and method == "HEAD":
            self.reply(self.objects.get(path), is_head=True)
        elif is_object and method == "DELETE":
            if not self.wrong("lost-delete"):
                self.change(path, None)
            self.answer(204, b"")
        elif method == "GET" and "list-type" in query:
            self.list(path, unquote(parse_qs(query).get("prefix", [""])[0]))
        elif method == "GET" and "uploads" in query:
            self.answer(200, b"<ListMultipartUploadsResult></ListMultipartUploadsResult>")
        else:
            super().request(method, target, body)

    def reply(self, content, is_head=False):
        if content is None:
            return self.answer(404, b"<Error><Code>NoSuchKey</Code></Error>", is_head=is_head)
        self.answer(200, content, f'etag: "{hashlib.md5(content).hexdigest()}"\r\n', is_head=is_head)

    def put(self, path, body, head):
        match = re.search(r'(?im)^if-match: *"?([^"\r\n]*)', head)
        absent = re.search(r"(?im)^if-none-match:", head)
        now = self.objects.get(path)
        if match:
            holds = now is not None and hashlib.md5(now).hexdigest() == match[1]
            holds = holds or self.wrong("ignored-match")
        else:
            holds = not absent or now is None or self.wrong("ignored-none-match")
        if (match or absent) and holds and self.wrong("refused"):
            holds = False
        if not holds:
            return self.answer(412, b"<Error><Code>PreconditionFailed</Code></Error>")
        if not self.wrong("lost-conditional" if match or absent else "lost-put"):
            self.change(path, body)
        self.answer(200, b"", f'etag: "{hashlib.md5(body).hexdigest()}"\r\n')

    def list(self, path, prefix):
        bucket = "/" + path.strip("/") + "/"
        # The check lists one key.
        found = {key: content for key, content in self.objects.items() if key.startswith(bucket + prefix)} \
            if "consistency/" not in prefix else {bucket + prefix: self.objects.get(bucket + prefix)}
        if "consistency/" in prefix:
            if self.wrong("stale-list"):
                found = {bucket + prefix: self.before.get(bucket + prefix)}
            elif self.wrong("missing-list"):
                found = {}
        rows = "".join(f"<Contents><Key>{key[len(bucket):]}</Key><Size>{len(content)}</Size>"
                       f'<ETag>"{hashlib.md5(content).hexdigest()}"</ETag>'
                       "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
                       for key, content in sorted(found.items()) if content is not None)
        self.answer(200, f"<ListBucketResult><IsTruncated>false</IsTruncated>{rows}</ListBucketResult>".encode())


async def serve(kind, share):
    Connection.kind, Connection.share = kind, share
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Connection, "127.0.0.1", 0, backlog=4096)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    print(Connection.injected, flush=True)


def check(plimsoll, kind, share, seconds):
    """Returns the number of anomalies that were injected, and the findings."""
    server = subprocess.Popen([sys.executable, __file__, "serve", kind, str(share)], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True)
    url = server.stdout.readline().strip()
    credentials = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}
    with tempfile.TemporaryDirectory() as out:
        done = subprocess.run(
            [plimsoll, "run", "consistency", "--store", f"s3://bucket?endpoint={url}", "--duration", f"{seconds}s",
             "--json", "--out", f"{out}/runs"], capture_output=True, text=True, env={**os.environ, **credentials})
    injected, _ = server.communicate("")
    assert done.returncode in (0, 1), done.stderr
    return int(injected), json.loads(done.stdout)


def verdict(kind, findings):
    if not findings["violations"]:
        return "none found"
    right = [set(blamed) <= BLAMED[kind] for blamed in findings["blamed"]]
    return "right" if all(right) else "either/or" if any(right) else "WRONG"


def main():
    if sys.argv[1:2] == ["serve"]:
        return asyncio.run(serve(sys.argv[2], float(sys.argv[3])))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*")
    parser.add_argument("--shares", default="0.01,0.001")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--times", type=int, default=3)
    arguments = parser.parse_args()
    root = pathlib.Path(__file__).resolve().parent.parent
    plimsoll = os.environ.get("PLIMSOLL", root / "target/release/plimsoll")
    print("| anomaly | share | injected | keys | violations | blamed | verdict |\n| --- | --- | --- | --- | --- | --- | --- |")
    for kind in arguments.kinds or BLAMED:
        for share in map(float, arguments.shares.split(",")):
            for _ in range(arguments.times):
                injected, found = check(plimsoll, kind, share, arguments.seconds)
                blamed = " or ".join(" and ".join(sorted(blamed)) for blamed in found["blamed"])
                print(f"| {kind} | {100 * share:g}% | {injected} | {found['keys']} | {found['violations']} | {blamed} "
                      f"| {verdict(kind, found)} |", flush=True)


if __name__ == "__main__":
    main()
