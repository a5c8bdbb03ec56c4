#!/usr/bin/env python3
"""A store whose GET requests have a known limit, for tests of `plimsoll run capacity`.

    limits.py LIMIT          # serves until standard input closes; prints its URL

Limits:

    queue        one server of 200/s with a queue; 5 ms besides
    reject       200/s, and 503 above
    workers      8 workers of 20 ms: 400/s
    collapse     the more requests, the slower: at most 775/s, with 32 in flight
    credit       1500/s until 9,000 requests are used up, then 150/s; unused requests come back at 150/s
    autoscale    200/s for the first 20 s of load, then 600/s
    connection   25/s on each connection, 700/s in total
    latency      2 ms for each request that is active: 500/s
    fade         600/s, and 300/s from the 25th second of load
"""
import asyncio
import re
import sys
import time
from xml.sax.saxutils import escape


class Queue:
    """Requests that wait for one server of a rate."""

    def __init__(self, per_s, most_s=float("inf")):
        self.gap, self.free, self.most_s = 1 / per_s, 0.0, most_s

    def wait(self, now):
        """Returns the time until a request is served; None if it would wait too long."""
        start = max(now, self.free)
        if start - now > self.most_s:
            return None
        self.free = start + self.gap
        return self.free - now


class Limit:
    """Decides how long a GET takes. `active` and `open` count the requests and connections."""

    def __init__(self, kind):
        self.kind, self.active, self.open, self.began, self.credit, self.at = kind, 0, 0, None, 9000.0, None
        self.queue = Queue({"queue": 200, "credit": 1500, "autoscale": 200, "connection": 700, "fade": 600}.get(kind, 1e9))
        self.bucket = Queue(200, 0.05)
        self.workers = [0.0] * 8

    def delay(self, connection):
        """Returns the time of a request in seconds; None refuses it."""
        now = time.monotonic()
        self.began = self.began or now
        loaded_s = now - self.began
        if self.kind == "reject":
            return None if self.bucket.wait(now) is None else 0.005
        if self.kind == "workers":
            index = self.workers.index(min(self.workers))
            self.workers[index] = max(now, self.workers[index]) + 0.02
            return self.workers[index] - now
        if self.kind == "collapse":
            # The throughput of n requests is n / t(n), at most 775/s with 32.
            return 32 / 775 / 2 * (1 + ((self.active + 1) / 32) ** 2)
        if self.kind == "credit":
            elapsed, self.at = now - (self.at or now), now
            self.credit = min(9000.0, self.credit + 150 * elapsed)
            # Below zero, requests wait for the credit that they have used already.
            self.credit -= 1
            return max(self.queue.wait(now), -self.credit / 150) + 0.002
        if self.kind == "autoscale" and loaded_s > 20:
            self.queue.gap = 1 / 600
        if self.kind == "fade" and loaded_s > 25:
            self.queue.gap = 1 / 300
        if self.kind == "connection":
            return max(connection.queue.wait(now), self.queue.wait(now))
        if self.kind == "latency":
            return 0.002 * (self.active + 1)
        return self.queue.wait(now) + 0.005


class Connection(asyncio.Protocol):
    """One client's connection. A client sends one request at a time."""

    limit, objects = None, {}

    def connection_made(self, transport):
        self.transport, self.buffer, self.queue = transport, b"", Queue(25)
        self.limit.open += 1

    def connection_lost(self, _):
        self.limit.open -= 1

    def data_received(self, data):
        self.buffer += data
        while True:
            end = self.buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            head = self.buffer[:end].decode("latin-1")
            length = re.search(r"(?im)^content-length: *(\d+)", head)
            size = int(length[1]) if length else 0
            if re.search(r"(?im)^expect: *100", head) and len(self.buffer) < end + 4 + size:
                self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            if len(self.buffer) < end + 4 + size:
                return
            body, self.buffer = self.buffer[end + 4:end + 4 + size], self.buffer[end + 4 + size:]
            method, target = head.split(" ", 2)[:2]
            self.request(method, target, body, head)

    def request(self, method, target, body, head=""):
        path, _, query = target.partition("?")
        is_object = path.strip("/").count("/") > 0
        if method == "GET" and is_object:
            delay = self.limit.delay(self)
            if delay is None:
                return self.answer(503, b"<Error><Code>SlowDown</Code><Message>slow down</Message></Error>")
            self.limit.active += 1
            asyncio.get_running_loop().call_later(delay, self.finish, path)
        elif method == "PUT" and is_object:
            self.objects[path] = body
            self.answer(200, b"", 'etag: "0"\r\n')
        elif method == "HEAD" and is_object:
            found = self.objects.get(path)
            self.answer(404 if found is None else 200, found or b"", is_head=True)
        elif method == "DELETE":
            self.objects.pop(path, None)
            self.answer(204, b"")
        elif method == "POST":
            keys = re.findall(rb"<Key>([^<]*)</Key>", body)
            bucket = "/" + path.strip("/") + "/"
            for key in keys:
                self.objects.pop(bucket + key.decode(), None)
            self.answer(200, b"<DeleteResult></DeleteResult>")
        elif method == "GET" and "list-type" in query:
            bucket = "/" + path.strip("/") + "/"
            keys = sorted(key[len(bucket):] for key in self.objects if key.startswith(bucket))
            rows = "".join(f"<Contents><Key>{escape(key)}</Key><Size>1</Size><ETag>\"0\"</ETag>"
                           "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>" for key in keys)
            self.answer(200, f"<ListBucketResult><IsTruncated>false</IsTruncated>{rows}</ListBucketResult>".encode())
        else:
            self.answer(200, b"<Empty/>")

    def finish(self, path):
        self.limit.active -= 1
        found = self.objects.get(path)
        self.answer(404 if found is None else 200, found or b"<Error><Code>NoSuchKey</Code></Error>", 'etag: "0"\r\n')

    def answer(self, status, body, headers="", is_head=False):
        if self.transport.is_closing():
            return
        head = f"HTTP/1.1 {status} -\r\n{headers}content-length: {len(body)}\r\n\r\n"
        self.transport.write(head.encode() + (b"" if is_head else body))


async def serve(kind):
    Connection.limit = Limit(kind)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Connection, "127.0.0.1", 0, backlog=4096)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
