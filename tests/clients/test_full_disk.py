"""A disk without a free byte, and one that becomes read-only, under the real binary."""
import os
import signal
import subprocess
import threading
import urllib.error
import urllib.request

import pytest
from botocore.exceptions import ClientError

from support import ACCESS, GATEWAY, SECRET, Server, environment
from test_gateway import client
from test_tiers import wait

pytestmark = pytest.mark.skipif(not os.path.exists(GATEWAY), reason="plimsoll-gateway is not built")


@pytest.fixture
def disk(tmp_path):
    """A small file system that only this test uses."""
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(tmp_path)], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("this user cannot mount a file system")
    yield tmp_path
    subprocess.run(["umount", "--lazy", str(tmp_path)], check=True)


def start(data):
    return Server("--data", data, "--reserve", "16MiB", command=(GATEWAY, "run"))


def fill_up(disk):
    """Writes as another process would, until there is no free byte."""
    with open(disk / "foreign", "ab", buffering=0) as file:
        try:
            while True:
                file.write(bytes(1 << 20 if os.statvfs(disk).f_bavail > 256 else 1))
        except OSError:
            pass
    assert os.statvfs(disk).f_bavail == 0


def test_a_disk_without_a_free_byte_serves_reads_and_deletes_also_after_a_kill(disk):
    """Regression test: a start failed on a disk without a free byte, and deletes failed while it had none."""
    data = str(disk / "data")
    server = start(data)
    s3 = client(server)
    s3.create_bucket(Bucket="full")
    keys = [f"key-{number}" for number in range(100)]
    for key in keys:
        s3.put_object(Bucket="full", Key=key, Body=key.encode() * 100)
    fill_up(disk)
    for key in keys[:40]:
        s3.delete_object(Bucket="full", Key=key)
    server.process.send_signal(signal.SIGKILL)
    server.process.wait()
    fill_up(disk)
    for _ in range(2):
        with start(data) as server:
            s3 = client(server)
            for key in keys[40:]:
                assert s3.get_object(Bucket="full", Key=key)["Body"].read() == key.encode() * 100
            with pytest.raises(ClientError) as error:
                s3.put_object(Bucket="full", Key="new", Body=b"new")
            assert error.value.response["ResponseMetadata"]["HTTPStatusCode"] == 507
            s3.delete_object(Bucket="full", Key=keys.pop())
    os.remove(disk / "foreign")
    with start(data) as server:
        s3 = client(server)
        s3.put_object(Bucket="full", Key="new", Body=b"new")
        listed = [o["Key"] for o in s3.list_objects_v2(Bucket="full")["Contents"]]
        assert listed == sorted(keys[40:] + ["new"])
    assert os.path.getsize(os.path.join(data, "catalog", "ballast")) == 8 << 20


@pytest.fixture
def image(tmp_path):
    """An ext4 file system in a file. Yields the image, and the directory where it is mounted."""
    image, mounted = str(tmp_path / "image"), tmp_path / "mounted"
    mounted.mkdir()
    with open(image, "wb") as file:
        file.truncate(300 << 20)
    try:
        subprocess.run(["mkfs.ext4", "-q", image], check=True, capture_output=True)
        subprocess.run(["mount", "-o", "loop", image, str(mounted)], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this user cannot mount an image of ext4")
    yield image, mounted
    subprocess.run(["umount", "--lazy", str(mounted)], check=True)


def test_a_disk_that_becomes_read_only_under_load_loses_nothing(image):
    """As after an error of the disk: ext4 aborts its journal, and refuses all writes from then on."""
    image, mounted = image
    data, written, enough = str(mounted / "data"), {}, threading.Event()

    def write(server, number):
        s3 = client(server)
        for count in range(100_000):
            key, body = f"{number}-{count}", os.urandom([100, 20_000, 1_200_000][count % 3])
            try:
                s3.put_object(Bucket="load", Key=key, Body=body)
            except ClientError as error:
                assert error.response["ResponseMetadata"]["HTTPStatusCode"] in (500, 503)
                return enough.set()
            written[key] = body
            if len(written) >= 40:
                enough.set()

    server = Server("--data", data, "--metrics-listen", "127.0.0.1:0", command=(GATEWAY, "run"))
    client(server).create_bucket(Bucket="load")
    writers = [threading.Thread(target=write, args=(server, number)) for number in range(4)]
    for writer in writers:
        writer.start()
    enough.wait()
    subprocess.run(["mount", "-o", "remount,abort", str(mounted)], check=True)
    for writer in writers:
        writer.join()
    s3 = client(server)
    for key, body in written.items():
        assert s3.get_object(Bucket="load", Key=key)["Body"].read() == body, "reads go on"
    with pytest.raises(ClientError):
        s3.delete_object(Bucket="load", Key=next(iter(written)))
    with pytest.raises(urllib.error.HTTPError) as error:
        urllib.request.urlopen(server.metrics.replace("/metrics", "/readyz"))
    assert error.value.code == 503 and error.value.read().startswith(b"writes are stopped: ")
    shown = subprocess.run([GATEWAY, "status", "--data", data], capture_output=True, text=True)
    assert shown.returncode == 1 and "writes fail" in shown.stdout.splitlines()[0], shown
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait() == 3
    keys = dict(environment(), PLIMSOLL_ACCESS_KEY=ACCESS, PLIMSOLL_SECRET_KEY=SECRET)
    refused = subprocess.run([GATEWAY, "run", "--data", data], capture_output=True, text=True, env=keys)
    assert refused.returncode == 3 and len(refused.stderr.splitlines()) == 1, refused.stderr
    subprocess.run(["umount", str(mounted)], check=True)
    # A mount namespace of another process may still have the file system.
    wait(lambda: not subprocess.run(["losetup", "-j", image], capture_output=True).stdout, "the image is in use")
    subprocess.run(["fsck.ext4", "-y", image], capture_output=True)
    subprocess.run(["mount", "-o", "loop", image, str(mounted)], check=True)
    with Server("--data", data, command=(GATEWAY, "run")) as server:
        s3 = client(server)
        for key, body in written.items():
            assert s3.get_object(Bucket="load", Key=key)["Body"].read() == body, key
        s3.put_object(Bucket="load", Key="again", Body=b"1")
