"""An S3 server for tests that keeps objects in files, and omits what its MODE names: `unsafe_server.py DIR PORT MODE...`.

Modes: no-sync, no-directory-sync, whole-sync (`sync` of all file systems instead of files), in-place, ignores-errors,
no-checksum, forgets-deletes, journal (a file that is rewritten in place and without which the server does not start),
lies-in-listings, hangs (it stops answering), hangs-on-k2 (reads of one key get no answer), daemon (a child serves, in
another session).
"""
import hashlib
import html
import http.server
import itertools
import json
import os
import re
import sys
import threading
import urllib.parse

FOLDER, PORT, MODES = sys.argv[1], int(sys.argv[2]), set(sys.argv[3:])
KNOWN = {"no-sync", "no-directory-sync", "whole-sync", "in-place", "ignores-errors", "no-checksum", "forgets-deletes", "journal",
         "lies-in-listings", "hangs", "hangs-on-k2", "daemon", "safe"}
assert MODES <= KNOWN, MODES - KNOWN
LOCK = threading.Lock()
UPLOADS, NUMBERS, DELETED = {}, itertools.count(), set()


def sync(descriptor):
    try:
        os.fsync(descriptor)
    except OSError:
        if "ignores-errors" not in MODES:
            # What the failed sync should have written is lost: nothing here can be trusted any more.
            os._exit(1)


def sync_directory():
    if "whole-sync" in MODES:
        os.sync()
    elif not MODES & {"no-sync", "no-directory-sync"}:
        descriptor = os.open(FOLDER, os.O_RDONLY)
        sync(descriptor)
        os.close(descriptor)


def path_of(key):
    return os.path.join(FOLDER, "object-" + key.encode().hex())


def put(key, content):
    """Writes an object: its checksum, then its content."""
    if "hangs" in MODES and next(NUMBERS) == 20:
        threading.Event().wait()
    path = path_of(key)
    DELETED.discard(path)
    temporary = path if "in-place" in MODES else f"{path}.tmp"
    with open(temporary, "wb") as file:
        if "in-place" in MODES:
            sync(file.fileno())
        file.write(hashlib.sha256(content).digest() + content)
        file.flush()
        # A rename before the content is on the disk could leave neither the old nor the new object.
        if "whole-sync" in MODES:
            os.sync()
        elif "no-sync" not in MODES:
            sync(file.fileno())
    if temporary != path:
        os.rename(temporary, path)
    sync_directory()
    if "journal" in MODES:
        with open(os.path.join(FOLDER, "journal"), "r+") as file:
            file.truncate(0)
            file.write(json.dumps(sorted(os.listdir(FOLDER))))


def get(key):
    """Returns an object; None if it does not exist or is damaged."""
    if path_of(key) in DELETED:
        return None
    try:
        with open(path_of(key), "rb") as file:
            stored = file.read()
    except FileNotFoundError:
        return None
    if "no-checksum" not in MODES and hashlib.sha256(stored[32:]).digest() != stored[:32]:
        raise OSError("damaged")
    return stored[32:]


def delete(key):
    if "forgets-deletes" in MODES:
        DELETED.add(path_of(key))
        return
    try:
        os.unlink(path_of(key))
    except FileNotFoundError:
        return
    sync_directory()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # One packet for head and body: two of them wait for a delayed acknowledgement.
    wbufsize = 1 << 16

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def handle_request(self):
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True))
        bucket, _, key = url.path.lstrip("/").partition("/")
        key, body = urllib.parse.unquote(key), self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if "hangs-on-k2" in MODES and self.command == "GET" and key.endswith("c0/k2"):
            threading.Event().wait()
        with LOCK:
            try:
                self.serve(key, query, body)
            except OSError:
                self.answer(500)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_request

    def serve(self, key, query, body):
        etag = {"ETag": '"%s"' % hashlib.md5(body).hexdigest()}
        if "tagging" in query:
            self.answer(501)
        elif "delete" in query:
            for found in re.findall("<Key>(.*?)</Key>", body.decode()):
                delete(html.unescape(found))
            self.answer(200, b"<DeleteResult/>")
        elif "versions" in query:
            self.answer(200, b"<ListVersionsResult><IsTruncated>false</IsTruncated></ListVersionsResult>")
        elif "uploads" in query and self.command == "GET":
            self.answer(200, b"<ListMultipartUploadsResult><IsTruncated>false</IsTruncated>"
                             b"</ListMultipartUploadsResult>")
        elif not key:
            self.answer(200, self.listing(query) if self.command == "GET" else b"")
        elif self.command == "POST" and "uploads" in query:
            upload = f"upload{next(NUMBERS)}"
            UPLOADS[upload] = {}
            self.answer(200, f"<InitiateMultipartUploadResult><UploadId>{upload}</UploadId>"
                             "</InitiateMultipartUploadResult>".encode())
        elif self.command == "POST":
            parts = UPLOADS.pop(query["uploadId"])
            put(key, b"".join(parts[number] for number in sorted(parts)))
            self.answer(200, b'<CompleteMultipartUploadResult><ETag>"done"</ETag></CompleteMultipartUploadResult>')
        elif self.command == "PUT" and "uploadId" in query:
            UPLOADS[query["uploadId"]][int(query["partNumber"])] = body
            self.answer(200, **etag)
        elif self.command == "PUT":
            source = self.headers.get("x-amz-copy-source")
            if source:
                content = get(urllib.parse.unquote(source).lstrip("/").partition("/")[2])
                put(key, content)
                self.answer(200, b"<CopyObjectResult/>")
            else:
                put(key, body)
                self.answer(200, **etag)
        elif self.command == "DELETE":
            delete(key)
            self.answer(204)
        else:
            content = get(key)
            if content is None:
                self.answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
            else:
                self.answer(200, content, ETag='"%s"' % hashlib.md5(content).hexdigest())

    def listing(self, query):
        names = [name for name in os.listdir(FOLDER) if re.fullmatch("object-[0-9a-f]+", name)]
        keys = sorted((bytes.fromhex(name[7:]).decode(), max(0, os.path.getsize(os.path.join(FOLDER, name)) - 32))
                      for name in names)
        keys = [(key, size) for key, size in keys
                if key.startswith(query.get("prefix", "")) and path_of(key) not in DELETED]
        if "lies-in-listings" in MODES:
            keys = keys[::2]
        entry = "<Contents><Key>{}</Key><Size>{}</Size><LastModified>2026-01-01T00:00:00Z</LastModified></Contents>"
        return ("<ListBucketResult><IsTruncated>false</IsTruncated>"
                + "".join(entry.format(key.replace("&", "&amp;"), size) for key, size in keys)
                + "</ListBucketResult>").encode()


if "journal" in MODES:
    journal = os.path.join(FOLDER, "journal")
    if os.path.exists(journal):
        json.load(open(journal))
    else:
        with open(journal, "w") as file:
            file.write("[]")
if "daemon" in MODES and os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
elif "daemon" in MODES:
    threading.Event().wait()
http.server.ThreadingHTTPServer(("127.0.0.1", PORT), Handler).serve_forever()
