"""Azure Blob Storage with tokens of Microsoft Entra, against an imitation of the token endpoints and of the store.

Azurite accepts no tokens over HTTP. The imitation issues tokens that are due for renewal at once, and accepts only those
that it has issued."""

import http.server
import json
import pathlib
import re
import subprocess
import threading
import time
import urllib.parse
import xml.sax.saxutils

import pytest

from support import PLIMSOLL, environment

SECRET = "a-secret-that-is-never-written"


class Azure:
    """Token endpoints at /tenant and /imds, and a container of an account at /acme1/box."""

    def __init__(self, refuses=False):
        self.issued, self.used, self.blobs, self.asked = [], set(), {}, []
        azure, lock = self, threading.Lock()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def answer(self, status, body=b"", **headers):
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name.replace("_", "-"), value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            def token(self, request):
                with lock:
                    azure.asked.append((self.path, request, self.headers))
                    if refuses:
                        return self.answer(401, json.dumps({"error": "invalid_client", "error_description": SECRET}).encode())
                    azure.issued.append(f"token-{len(azure.issued)}-{SECRET}")
                    # Tokens are renewed 300 seconds before they expire.
                    self.answer(200, json.dumps({"access_token": azure.issued[-1], "token_type": "Bearer", "expires_in": 300,
                                                 "expires_on": str(int(time.time()) + 300)}).encode())

            def handle_one(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                path, _, query = self.path.partition("?")
                query = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
                if path.startswith(("/tenant/", "/imds")):
                    return self.token(body.decode())
                bearer = self.headers.get("Authorization", "").removeprefix("Bearer ")
                with lock:
                    if bearer not in azure.issued or not self.headers.get("x-ms-version"):
                        return self.answer(401, x_ms_error_code="InvalidAuthenticationInfo")
                    azure.used.add(bearer)
                    name = urllib.parse.unquote(path.removeprefix("/acme1/box").lstrip("/"))
                    if query.get("comp") == "list":
                        found = sorted(key for key in azure.blobs if key.startswith(query.get("prefix", "")))
                        items = "".join(
                            f"<Blob><Name>{xml.sax.saxutils.escape(key)}</Name><Properties><Etag>1</Etag><Content-Length>"
                            f"{len(azure.blobs[key])}</Content-Length></Properties></Blob>" for key in found)
                        return self.answer(200, f"<?xml version='1.0'?><EnumerationResults><Blobs>{items}</Blobs><NextMarker/>"
                                           "</EnumerationResults>".encode())
                    if self.command == "PUT":
                        azure.blobs[name] = body
                        return self.answer(201, ETag='"1"')
                    if name not in azure.blobs:
                        return self.answer(404, x_ms_error_code="BlobNotFound")
                    if self.command == "DELETE":
                        del azure.blobs[name]
                        return self.answer(202)
                    return self.answer(200, azure.blobs[name], ETag='"1"')

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_one

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


def measure(azure, directory, **variables):
    store = f"az://box/p?account=acme1&endpoint={azure.url}"
    ours = {name: value for name, value in environment(**variables).items()
            if name in variables or not name.startswith("AZURE_")}
    return subprocess.run([PLIMSOLL, "run", "get", "--store", store, "--objects", "20", "--operations", "300", "--warmup", "0",
                           "--concurrency", "4", "--json", "--out", str(directory)], env=ours, capture_output=True, text=True)


@pytest.mark.parametrize("kind", ["client secret", "workload identity", "managed identity"])
def test_tokens_of_entra_authorize_and_are_renewed(kind, tmp_path):
    with Azure() as azure:
        (tmp_path / "assertion").write_text("an-assertion")
        variables = {
            "client secret": {"AZURE_TENANT_ID": "tenant", "AZURE_CLIENT_ID": "me", "AZURE_CLIENT_SECRET": SECRET,
                              "AZURE_AUTHORITY_HOST": azure.url},
            "workload identity": {"AZURE_TENANT_ID": "tenant", "AZURE_CLIENT_ID": "me", "AZURE_AUTHORITY_HOST": azure.url,
                                  "AZURE_FEDERATED_TOKEN_FILE": str(tmp_path / "assertion")},
            "managed identity": {"AZURE_IMDS_ENDPOINT": f"{azure.url}/imds"},
        }[kind]
        done = measure(azure, tmp_path / "runs", **variables)
        assert done.returncode == 0, done.stderr
        result = json.loads(done.stdout)
        [window] = [window for window in result["windows"] if window["role"] == "measure"]
        assert window["operations"] == 300 and window["errors"] == {}, window
        [tokens] = [side for side in result["background_requests"] if side["request"] == "token"]
        assert tokens["calls"] >= 2 and tokens["failed"] == 0 and len(azure.used) >= 2, (tokens, azure.used)
        assert azure.blobs == {}, "its blobs are deleted"
        path, request, headers = azure.asked[0]
        form = dict(urllib.parse.parse_qsl(request))
        if kind == "managed identity":
            assert headers["Metadata"] == "true" and "resource=https%3A%2F%2Fstorage.azure.com" in path
        else:
            assert path == "/tenant/oauth2/v2.0/token" and form["scope"] == "https://storage.azure.com/.default"
            assert form.get("client_secret") == SECRET or form.get("client_assertion") == "an-assertion"
        written = "".join(path.read_bytes().decode(errors="replace") for path in tmp_path.rglob("runs/*/*"))
        assert SECRET not in written + done.stdout + done.stderr


def test_a_token_that_is_refused_is_one_line_without_the_secret(tmp_path):
    with Azure(refuses=True) as azure:
        done = measure(azure, tmp_path / "runs", AZURE_TENANT_ID="tenant", AZURE_CLIENT_ID="me", AZURE_CLIENT_SECRET=SECRET,
                       AZURE_AUTHORITY_HOST=azure.url)
        assert done.returncode == 3 and len(done.stderr.splitlines()) == 1, done.stderr
        assert re.search("Microsoft Entra.* failed", done.stderr) and SECRET not in done.stderr, done.stderr
        assert not pathlib.Path(tmp_path / "runs").exists() or not list((tmp_path / "runs").iterdir())
