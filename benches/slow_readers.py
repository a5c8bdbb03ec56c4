"""Memory of the gateway while thousands of clients read large objects slowly, and the time of a normal request meanwhile.

Each client requests an object and then reads a few bytes per second. The peak of the resident memory must stay below
1 GB for 10,000 clients. Needs boto3; GATEWAY names the binary and CLIENTS the number of clients. Two file descriptors
per client must be allowed (`ulimit -n`).
"""
import os
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import boto3
from botocore.config import Config

GATEWAY = os.environ.get("GATEWAY", "target/release/plimsoll-gateway")
CLIENTS = int(os.environ.get("CLIENTS", "10000"))
SECONDS = int(os.environ.get("SECONDS_SLOW", "20"))
# Name, size in bytes, and whether the object is uploaded in parts.
OBJECTS = [("blob", 20_000_000, False), ("inline", 1_000_000, False), ("parts", 60_000_000, True)]


def memory(pid, name):
    """Returns a figure of the process in MB."""
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) / 1000 for line in status if line.startswith(name))


def connect(port, key, bucket):
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect(("127.0.0.1", port))
    client.sendall(f"GET /{bucket}/{key} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n".encode())
    client.setblocking(False)
    return client


def read_some(clients):
    """Reads a few bytes of each client; returns the clients whose connection is open."""
    still = []
    for client in clients:
        try:
            if client.recv(100):
                still.append(client)
                continue
        except BlockingIOError:
            still.append(client)
            continue
        except OSError:
            pass
        client.close()
    return still


def measure(s3, port, pid, key, bucket):
    clients, times = [], []
    begin = time.monotonic()
    for number in range(CLIENTS):
        clients.append(connect(port, key, bucket))
        if number % 500 == 499:
            clients = read_some(clients)
    while time.monotonic() - begin < SECONDS:
        clients = read_some(clients)
        start = time.monotonic()
        assert len(s3.get_object(Bucket="slow", Key="inline")["Body"].read()) == 1_000_000
        times.append(time.monotonic() - start)
        time.sleep(0.5)
    rss = memory(pid, "VmRSS")
    print(f"{len(clients):>6} clients read {key:<10} {rss:>6.0f} MB   a normal GET of 1 MB takes "
          f"{statistics.median(times) * 1000:.0f} ms", flush=True)
    for client in clients:
        client.close()


def main():
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with tempfile.TemporaryDirectory() as data:
        env = dict(os.environ, PLIMSOLL_ACCESS_KEY="k", PLIMSOLL_SECRET_KEY="s")
        process = subprocess.Popen([GATEWAY, "run", "--data", data, "--listen", "127.0.0.1:0"], env=env,
                                   stdout=subprocess.PIPE, text=True)
        port = int(process.stdout.readline().rsplit(":", 1)[1])
        s3 = boto3.client("s3", endpoint_url=f"http://127.0.0.1:{port}", region_name="us-east-1", aws_access_key_id="k",
                          aws_secret_access_key="s",
                          config=Config(s3={"addressing_style": "path"}, request_checksum_calculation="when_required"))
        s3.create_bucket(Bucket="slow", ACL="public-read")
        for key, size, is_multipart in OBJECTS:
            body = os.urandom(size)
            if not is_multipart:
                s3.put_object(Bucket="slow", Key=key, Body=body, ACL="public-read")
                continue
            upload = s3.create_multipart_upload(Bucket="slow", Key=key, ACL="public-read")["UploadId"]
            parts = [body[at:at + 6_000_000] for at in range(0, size, 6_000_000)]
            done = [s3.upload_part(Bucket="slow", Key=key, UploadId=upload, PartNumber=number, Body=part)
                    for number, part in enumerate(parts, 1)]
            listed = [{"PartNumber": number, "ETag": part["ETag"]} for number, part in enumerate(done, 1)]
            s3.complete_multipart_upload(Bucket="slow", Key=key, UploadId=upload, MultipartUpload={"Parts": listed})
        for number in range(1000):
            s3.put_object(Bucket="slow", Key=f"list/{number:0600}", Body=b"")
        print(f"{memory(process.pid, 'VmRSS'):.0f} MB before", flush=True)
        for key in os.environ.get("KEYS", "blob inline parts ?list-type=2").split():
            measure(s3, port, process.pid, key, "slow")
        peak = memory(process.pid, "VmHWM")
        print(f"peak {peak:.0f} MB")
        process.terminate()
        process.wait()
    if peak > 1000:
        sys.exit("the peak is above 1 GB")


if __name__ == "__main__":
    main()
