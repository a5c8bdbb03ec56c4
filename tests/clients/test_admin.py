"""The socket through which command lines reach a running gateway."""
import json
import os
import random
import socket
import subprocess

import pytest

from support import GATEWAY
from test_tiers import client, run, settings, wait

pytestmark = pytest.mark.skipif(not os.path.exists(GATEWAY), reason="plimsoll-gateway is not built")


def test_garbage_at_the_socket_of_commands_ends_only_its_connection(tmp_path):
    path = settings(tmp_path)
    with run(path) as server:
        s3 = client(server)
        s3.create_bucket(Bucket="bucket")
        s3.put_object(Bucket="bucket", Key="key", Body=b"body")
        version = subprocess.run([GATEWAY, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
        directory = os.open(tmp_path / "catalog", os.O_RDONLY)

        def connect():
            one = socket.socket(socket.AF_UNIX)
            one.settimeout(120)
            one.connect(f"/proc/self/fd/{directory}/admin.sock")
            return one

        def answer(sent, ends=True):
            with connect() as one:
                try:
                    one.sendall(sent)
                    if ends:
                        one.shutdown(socket.SHUT_WR)
                except OSError:
                    pass
                try:
                    return b"".join(iter(lambda: one.recv(1 << 16), b""))
                except ConnectionError:
                    return b""

        def request(arguments, of=version, where="/"):
            return json.dumps({"version": of, "directory": where, "arguments": arguments}).encode() + b"\n"
        choice = random.Random(1)
        noise = [choice.randbytes(choice.randrange(1, 5000)) for _ in range(30)]
        whole = request(["status", path])
        garbage = [b"", b"\n", b"{}\n", b"null\n", b"[" * 100_000 + b"\n", b'"' + b"x" * (3 << 20), b"GET / HTTP/1.1\r\n\r\n",
                   b'{"version":1,"directory":[],"arguments":{}}\n', whole[:-2], whole.replace(b"status", b"\xff\xfe"),
                   *[bytes(byte ^ (0x80 if index == at else 0) for index, byte in enumerate(whole))
                     for at in range(0, len(whole), 7)]]
        for sent in noise + garbage:
            assert b'"exit":[0' not in answer(sent), sent[:100]
        for arguments in ([], ["run", path], ["status"], ["--help"], ["backup", path, "--to", ""], ["x" * 900_000]):
            found = answer(request(arguments))
            assert b'"exit":[' in found and b'"exit":[0' not in found or arguments == ["--help"], (arguments, found)
        assert b"use its command line" in answer(request(["status", path], of="0.0.0"))
        # The gateway closes idle connections after some seconds. Until then, it refuses further commands.
        idle = [connect() for _ in range(8)]
        wait(lambda: b"state" in answer(whole), "idle connections stay")
        for one in idle:
            one.close()
        os.close(directory)
        assert s3.get_object(Bucket="bucket", Key="key")["Body"].read() == b"body"
        assert subprocess.run([GATEWAY, "status", path], capture_output=True).returncode == 0
