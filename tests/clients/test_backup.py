"""`[backup]`: the log of a gateway in a directory or an S3 store, restored to any time."""
import hashlib
import json
import os
import random
import shutil
import subprocess
import time
import urllib.request

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from support import ACCESS, GATEWAY, SECRET, Server, environment
from test_tiers import wait

pytestmark = pytest.mark.skipif(not os.path.exists(GATEWAY), reason="plimsoll-gateway is not built")

BUCKETS = {"plain": False, "versions": True}
# Number of times that are restored, and of operations; the bench uses more.
TIMES = int(os.environ.get("PLIMSOLL_TIMES", "6"))
OPERATIONS = int(os.environ.get("PLIMSOLL_OPERATIONS", "150"))
SEED = int(os.environ.get("PLIMSOLL_SEED", "1"))


def client(server):
    return boto3.client("s3", endpoint_url=server.url, region_name="us-east-1", aws_access_key_id=ACCESS,
                        aws_secret_access_key=SECRET,
                        config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 1}))


def settings(directory, to, catalog="catalog", more="", name="gateway.toml"):
    """Writes settings with tiers that are directories, and rules that move and pack at once."""
    path = directory / name
    path.write_text(f"""
[catalog]
url = "dir:{directory}/{catalog}"
[tier.hot]
url = "file://{directory}/hot"
[tier.cold]
url = "file://{directory}/cold"
[write]
tier = "hot"
inline = "20 KiB"
[pack]
tier = "hot"
max_body = "20 KiB"
file_size = "1 MiB"
min_age = "1s"
max_wait = "2s"
[[move]]
from = "hot"
to = "cold"
when = "age > 1s and size > 50 KiB"
keep_source = "0s"
[backup]
to = "{to}"
every = "1s"
{more}
""")
    return str(path)


def gateway(file, *more):
    return Server("--move-every", "500ms", *more, command=(GATEWAY, "run", file))


def command(*words, code=0):
    done = subprocess.run([GATEWAY, *words], capture_output=True, text=True, env=environment(), timeout=300)
    assert done.returncode == code, (words, done.stdout, done.stderr)
    return done.stdout if code == 0 else done.stdout + done.stderr


def wait_for_backup(place):
    """Waits until a backup has begun: a gateway that ends before ships nothing until it starts again."""
    wait(lambda: any(names for *_, names in os.walk(place / "log")), "the backup has begun")


def restore(file, *more):
    return json.loads(command("restore", file, "--json", *more))


def state(s3):
    """Returns the digest of every version of every object, and which one is current."""
    found = {}
    for bucket in s3.list_buckets()["Buckets"]:
        name = bucket["Name"]
        for page in s3.get_paginator("list_object_versions").paginate(Bucket=name):
            for version in page.get("Versions", []):
                got = s3.get_object(Bucket=name, Key=version["Key"], VersionId=version["VersionId"])
                body = hashlib.md5(got["Body"].read()).hexdigest()
                key = (name, version["Key"], version["VersionId"] if BUCKETS.get(name) else "null")
                found[key] = (body, version["IsLatest"], version["ETag"], got["Metadata"].get("n"))
            for marker in page.get("DeleteMarkers", []):
                found[name, marker["Key"], marker["VersionId"]] = ("deleted", marker["IsLatest"], "", None)
    return found


def listing(s3):
    """Returns what `state` has, without the bodies."""
    found = {}
    for name in BUCKETS:
        for page in s3.get_paginator("list_object_versions").paginate(Bucket=name):
            for version in page.get("Versions", []) + page.get("DeleteMarkers", []):
                key = (name, version["Key"], version["VersionId"] if BUCKETS[name] else "null")
                found[key] = (version["IsLatest"], version.get("ETag", ""))
    return found


class Workload:
    """Random operations, with the state after each."""

    def __init__(self, s3, seed):
        self.s3, self.random, self.bodies, self.states, self.count = s3, random.Random(seed), {}, [], 0
        for bucket, has_versions in BUCKETS.items():
            s3.create_bucket(Bucket=bucket)
            if has_versions:
                s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})

    def operate(self):
        """Changes something in a millisecond without another change."""
        start = time.time_ns() // 1_000_000
        while time.time_ns() // 1_000_000 == start:
            pass
        bucket, key = self.random.choice(list(BUCKETS)), f"k{self.random.randrange(12)}"
        kind = self.random.choice(["put", "put", "put", "delete", "multipart", "copy"])
        size = self.random.choice([0, 10, 2_000, 15_000, 60_000, 200_000])
        self.count += 1
        meta = {"n": str(self.count)}
        if kind == "put":
            body = self.random.randbytes(size)
            self.s3.put_object(Bucket=bucket, Key=key, Body=body, Metadata=meta)
        elif kind == "delete":
            self.s3.delete_object(Bucket=bucket, Key=key)
        elif kind == "multipart":
            parts = [self.random.randbytes(5 << 20), self.random.randbytes(size)][:1 + (size > 0)]
            upload = self.s3.create_multipart_upload(Bucket=bucket, Key=key, Metadata=meta)["UploadId"]
            done = [{"PartNumber": n, "ETag": self.s3.upload_part(
                Bucket=bucket, Key=key, UploadId=upload, PartNumber=n, Body=part)["ETag"]}
                for n, part in enumerate(parts, 1)]
            self.s3.complete_multipart_upload(Bucket=bucket, Key=key, UploadId=upload, MultipartUpload={"Parts": done})
        else:
            try:
                self.s3.copy_object(Bucket=bucket, Key=key, CopySource={"Bucket": bucket, "Key": f"k{self.random.randrange(12)}"})
            except ClientError as error:
                assert error.response["Error"]["Code"] in ("NoSuchKey", "InvalidRequest"), error

    def run(self, count, states=1):
        for _ in range(count):
            self.operate()
            if self.random.random() < states:
                self.states.append((time.time(), state(self.s3)))


def at(seconds):
    ms = int(seconds * 1000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(ms // 1000)) + f".{ms % 1000:03}Z"


def metric(server, name):
    text = urllib.request.urlopen(server.metrics, timeout=10).read().decode()
    found = [line.split()[-1] for line in text.splitlines() if line.startswith(f"plimsoll_gateway_{name} ")]
    return float(found[0]) if found else None


def test_every_time_is_restored_with_moves_packing_and_versions(tmp_path):
    file = settings(tmp_path, f"file://{tmp_path}/backup")
    with gateway(file) as server:
        work = Workload(client(server), SEED)
        work.run(OPERATIONS, states=0.3)
        # Moves and packing change the places of bodies and nothing that a client sees.
        wait(lambda: os.path.isdir(tmp_path / "cold") and sum(map(len, (names for *_, names in os.walk(tmp_path / "cold")))) > 5,
             "bodies move")
        work.run(5)
    shutil.move(tmp_path / "catalog", tmp_path / "lost")
    moved = 0
    for index in range(TIMES):
        seconds, expected = work.states[-1] if index == 0 else work.random.choice(work.states)
        found = restore(file, "--at", at(seconds))
        assert found["at_ms"] <= seconds * 1000 and not found["damage"] and not found["missing_bodies"], found
        moved += found["moved_bodies"]
        with gateway(file, "--restored") as server:
            assert state(client(server)) == expected, f"state {index} at {at(seconds)}"
        shutil.rmtree(tmp_path / "catalog")
    assert moved > 0, "a state before a move must read the body where it is now"
    shown = command("verify-backup", file)
    assert shown.startswith("every state from "), shown


def test_what_is_lost_with_the_disk_is_exactly_what_is_reported(tmp_path):
    file = settings(tmp_path, f"file://{tmp_path}/backup")
    server = gateway(file)
    s3 = client(server)
    s3.create_bucket(Bucket="plain")
    acknowledged = {}
    pieces = lambda: sum(len(names) for *_, names in os.walk(tmp_path / "backup" / "log"))
    start = pieces()
    while pieces() < start + 4:
        key, body = f"k{len(acknowledged)}", os.urandom(random.choice([100, 100_000]))
        s3.put_object(Bucket="plain", Key=key, Body=body)
        acknowledged[key] = (time.time(), body)
    server.process.kill()
    server.process.wait()
    for name in ("catalog", "hot", "cold"):
        shutil.rmtree(tmp_path / name, ignore_errors=True)
    found = restore(file)
    assert not found["damage"] and not found["missing_bodies"], found
    with gateway(file) as server:
        s3 = client(server)
        # A slow machine writes more than a page of keys.
        pages = s3.get_paginator("list_objects_v2").paginate(Bucket="plain")
        kept = {one["Key"] for page in pages for one in page["Contents"]}
        for key, (seconds, body) in acknowledged.items():
            assert key in kept or seconds * 1000 > found["at_ms"], f"{key} was acknowledged before the restored time"
            if key in kept:
                assert s3.get_object(Bucket="plain", Key=key)["Body"].read() == body
        assert len(kept) > 3
        # The restored store continues the backup.
        s3.put_object(Bucket="plain", Key="later", Body=b"1")
    assert command("verify-backup", file).startswith("every state from ")
    shutil.rmtree(tmp_path / "catalog")
    restore(file)
    with gateway(file, "--restored") as server:
        assert client(server).get_object(Bucket="plain", Key="later")["Body"].read() == b"1"


def test_status_and_metrics_show_the_backup_and_a_place_that_fails(tmp_path):
    with Server() as store:
        client(store).create_bucket(Bucket="place")
        url = f"s3://place/gateway?endpoint={store.url}"
        file = settings(tmp_path, url, more='offer = "aws-s3@us-east-1"')
        with gateway(file, "--metrics-listen", "127.0.0.1:0") as server:
            s3 = client(server)
            s3.create_bucket(Bucket="plain")
            s3.put_object(Bucket="plain", Key="k", Body=b"1")
            wait(lambda: metric(server, "backup_lag_seconds") == 0, "everything is shipped")
            assert metric(server, "backup_log_bytes_total") > 100 and metric(server, "backup_damaged") == 0
            assert time.time() - metric(server, "backup_newest_timestamp_seconds") < 300
            shown = json.loads(command("status", file, "--json"))["backup"]
            assert shown["problem"] is None and shown["requests"] > 2 and 0 < shown["dollars"] < 1, shown
            text = command("status", file)
            assert f"to {url}" in text and "; complete" in text, text
            store.process.kill()
            s3.put_object(Bucket="plain", Key="k", Body=b"2")
            wait(lambda: "fails: " in command("status", file), "the failure is shown")
            assert metric(server, "backup_lag_seconds") > 0
            assert s3.get_object(Bucket="plain", Key="k")["Body"].read() == b"2"
        store.process.wait()
        store.process.terminate = lambda: None
        store.process.returncode = 0


def test_a_place_is_used_by_one_catalog_and_one_gateway_at_a_time(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    to = f"file://{tmp_path}/backup"
    first = settings(tmp_path / "a", to)
    with gateway(first) as server:
        client(server).create_bucket(Bucket="plain")
    with gateway(first) as server:
        other = settings(tmp_path / "b", to)
        error = command("run", other, "--access-key", "a", "--secret-key", "secretsecret", code=3)
        assert "the catalog is empty, and" in error and "has the backup of catalog" in error, error
        assert not os.path.exists(tmp_path / "b" / "catalog")
        wait_for_backup(tmp_path / "backup")
        wait(lambda: "; complete" in command("status", first), "everything is shipped")
        # A copy of the catalog that has everything begins a new epoch, and the first gateway must not continue in its
        # own, nor acknowledge writes that the copy does not have.
        (tmp_path / "copy").mkdir()
        shutil.copytree(tmp_path / "a" / "catalog", tmp_path / "copy" / "catalog", ignore=shutil.ignore_patterns("admin.sock"))
        with gateway(settings(tmp_path / "copy", to)) as copy:
            s3 = client(copy)
            s3.put_object(Bucket="plain", Key="copy", Body=b"1")
            shown = lambda: subprocess.run([GATEWAY, "status", first], capture_output=True, text=True).stdout
            wait(lambda: "another gateway has continued this backup" in shown(), "the first is fenced")
            assert "writes fail" in shown(), shown()
            with pytest.raises(ClientError):
                client(server).put_object(Bucket="plain", Key="lost", Body=b"1")
        server.process.terminate()
        assert server.process.wait() == 3
        server.process.terminate = lambda: None
        server.process.returncode = 0


def test_wrong_input_has_a_clear_message(tmp_path):
    to = f"file://{tmp_path}/backup"
    file = settings(tmp_path, to)
    assert "there is no backup" in command("verify-backup", file, code=3)
    assert "there is no backup" in command("restore", file, code=3)
    assert not os.path.exists(tmp_path / "backup") and not os.path.exists(tmp_path / "catalog")
    with gateway(file) as server:
        client(server).create_bucket(Bucket="plain")
        wait_for_backup(tmp_path / "backup")
    assert "a catalog is there" in command("restore", file, code=2)
    shutil.rmtree(tmp_path / "catalog")
    assert "its oldest state is of 20" in command("restore", file, "--at", "2020-01-01T00:00:00Z", code=3)
    assert "in the future" in command("restore", file, "--at", "2099-01-01T00:00:00Z", code=2)
    assert "--from" in command("restore", "--data", str(tmp_path / "data"), code=2)
    assert not os.path.exists(tmp_path / "catalog")
    wrong = settings(tmp_path, to, more='keep = "30d"', name="wrong.toml")
    assert "retain.deleted" in command("run", wrong, "--access-key", "a", "--secret-key", "secretsecret", code=2)
    other = tmp_path / "other"
    other.mkdir()
    inside = settings(other, f"file://{other}/hot/backup")
    assert "is in the place of tier hot" in command("run", inside, "--access-key", "a", "--secret-key", "secretsecret", code=2)
    piece = next(os.path.join(root, name) for root, _, names in os.walk(tmp_path / "backup" / "log") for name in names)
    with open(piece, "r+b") as damaged:
        damaged.seek(-1, os.SEEK_END)
        last = damaged.read(1)
        damaged.seek(-1, os.SEEK_END)
        damaged.write(bytes([last[0] ^ 1]))
    assert os.path.relpath(piece, tmp_path / "backup") in command("verify-backup", file, code=1)
    assert "is damaged" in command("restore", file, code=3)
    assert not os.path.exists(tmp_path / "catalog")


def test_a_bucket_returns_to_an_earlier_state_while_the_gateway_runs(tmp_path):
    file = settings(tmp_path, f"file://{tmp_path}/backup")
    with gateway(file) as server:
        s3 = client(server)
        for name, versioned in BUCKETS.items():
            s3.create_bucket(Bucket=name)
            if versioned:
                s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
            for number in range(20):
                s3.put_object(Bucket=name, Key=f"k{number}", Body=f"{number}".encode() * number * 2000,
                              Metadata={"n": str(number)}, Tagging=f"n={number}")
            upload = s3.create_multipart_upload(Bucket=name, Key="parts", Metadata={"n": "parts"})["UploadId"]
            parts = [s3.upload_part(Bucket=name, Key="parts", UploadId=upload, PartNumber=part + 1,
                                    Body=bytes([part]) * (5 << 20))["ETag"] for part in range(2)]
            s3.complete_multipart_upload(Bucket=name, Key="parts", UploadId=upload, MultipartUpload={
                "Parts": [{"PartNumber": part + 1, "ETag": etag} for part, etag in enumerate(parts)]})
        s3.put_bucket_tagging(Bucket="plain", Tagging={"TagSet": [{"Key": "a", "Value": "b"}]})
        etags = {name: s3.head_object(Bucket=name, Key="parts")["ETag"] for name in BUCKETS}
        bodies = lambda name: {key: body for (bucket, key, _), body in current(s3).items() if bucket == name}
        before, then = {name: bodies(name) for name in BUCKETS}, time.time()
        # Behind a write, the time is in the past of the log.
        for name in BUCKETS:
            for number in range(0, 10, 2):
                s3.put_object(Bucket=name, Key=f"k{number}", Body=b"replaced")
            for number in range(1, 20, 3):
                s3.delete_object(Bucket=name, Key=f"k{number}")
            s3.put_object(Bucket=name, Key="newer", Body=b"newer")
            s3.put_object(Bucket=name, Key="parts", Body=b"replaced")
            s3.put_object_tagging(Bucket=name, Key="k3", Tagging={"TagSet": []})
        words = ["--at", at(then), "--json"]
        counted = json.loads(command("restore", file, "--bucket", "plain", "--dry-run", "--exact", *words))["result"]
        assert (counted["restored"], counted["unchanged"], counted["deleted"]) == (13, 8, 1), counted
        assert bodies("plain") != before["plain"]
        for name in BUCKETS:
            found = json.loads(command("restore", file, "--bucket", name, *words))["result"]
            assert (found["restored"], found["newer"], found["lost"], found["failed"]) == (13, 1, 0, 0), found
            assert bodies(name) == {**before[name], "newer": bodies(name)["newer"]}
            found = json.loads(command("restore", file, "--bucket", name, "--exact", *words))["result"]
            assert (found["restored"], found["unchanged"], found["deleted"]) == (0, 21, 1), found
            assert bodies(name) == before[name]
            head = s3.head_object(Bucket=name, Key="parts", PartNumber=2)
            assert head["ETag"] == etags[name] and head["PartsCount"] == 2 and head["ContentLength"] == 5 << 20
            assert s3.get_object_tagging(Bucket=name, Key="k3")["TagSet"] == [{"Key": "n", "Value": "3"}]
        assert s3.get_object_tagging(Bucket="versions", Key="k4")["TagSet"] == [{"Key": "n", "Value": "4"}]
        # A bucket that was deleted.
        for key in before["plain"]:
            s3.delete_object(Bucket="plain", Key=key)
        s3.delete_bucket(Bucket="plain")
        shown = command("restore", file, "--bucket", "plain", "--prefix", "k1", "--at", at(then))
        assert shown.startswith("11 objects with ") and "was created as it was" in shown, shown
        assert bodies("plain") == {key: body for key, body in before["plain"].items() if key.startswith("k1")}
        assert s3.get_bucket_tagging(Bucket="plain")["TagSet"] == [{"Key": "a", "Value": "b"}]
        assert "there was no such bucket" in command("restore", file, "--bucket", "other", "--at", at(then), code=2)
        assert "its oldest state" in command("restore", file, "--bucket", "plain", "--at", "2020-01-01T00:00:00Z", code=3)
        assert "--at" in command("restore", file, "--bucket", "plain", code=2)
        assert not [name for name in os.listdir(tmp_path / "catalog") if "temporary" in name]


def current(s3):
    """Returns the body and the metadata of the current version of every object."""
    return {key: (body, n) for key, (body, latest, _, n) in state(s3).items() if latest and body != "deleted"}
