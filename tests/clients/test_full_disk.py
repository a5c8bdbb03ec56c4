"""A disk without a free byte, under the real binary."""
import os
import signal
import subprocess

import pytest
from botocore.exceptions import ClientError

from support import GATEWAY, Server
from test_gateway import client

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
