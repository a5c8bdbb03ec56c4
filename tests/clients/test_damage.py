"""Damage of one stored file under the real binary: what clients read, and what `scrub` says, against a model.

`PLIMSOLL_DAMAGES=2000 pytest tests/clients/test_damage.py` tries more than the default."""
import http.client
import json
import os
import random
import re
import shutil
import signal
import subprocess
import urllib.parse

import boto3
import pytest
from botocore.config import Config

from support import ACCESS, GATEWAY, SECRET, Server

pytestmark = pytest.mark.skipif(not os.path.exists(GATEWAY), reason="plimsoll-gateway is not built")
DAMAGES = int(os.environ.get("PLIMSOLL_DAMAGES", "24"))
KINDS = ["flip", "zero", "misdirect", "truncate", "delete", "swap", "copy", "old copy"]
# Most bytes of a record besides the body, with the header of a group of few records.
AROUND_KEY = 1500


def start(data, *options):
    return Server("--data", data, "--reserve", "0", *options, command=(GATEWAY, "run"))


def files(data):
    found = (os.path.join(folder, name) for folder, _, names in os.walk(data) for name in names)
    return sorted(os.path.relpath(path, data) for path in found if os.path.isfile(path))


def copy(data, to):
    """Without the admin socket, which a running or killed gateway leaves."""
    shutil.copytree(data, to, ignore=shutil.ignore_patterns("*.sock"))


def read(path):
    with open(path, "rb") as file:
        return file.read()


class Store:
    """A data directory with a history of several processes, and what each object must contain."""

    def __init__(self, folder, is_clean):
        self.data, self.old = os.path.join(folder, "data"), os.path.join(folder, "old")
        self.objects, self.deleted, self.is_clean = {}, set(), is_clean
        self.random = random.Random(3)
        for process in range(4):
            server = start(self.data)
            self.write(server, process)
            if process == 2:
                copy(self.data, self.old)
            server.process.send_signal(signal.SIGTERM if is_clean or process < 3 else signal.SIGKILL)
            server.process.wait()

    def write(self, server, process):
        s3 = boto3.client("s3", endpoint_url=server.url, region_name="us-east-1", aws_access_key_id=ACCESS,
                          aws_secret_access_key=SECRET, config=Config(s3={"addressing_style": "path"}))
        if process == 0:
            for bucket in ("plain", "versions"):
                s3.create_bucket(Bucket=bucket, ACL="public-read")
            s3.put_bucket_versioning(Bucket="versions", VersioningConfiguration={"Status": "Enabled"})
        for number in range(30):
            key, body = f"key-{self.random.randrange(45)}", self.random.randbytes(self.random.randrange(100, 4000))
            if number < 2:
                key, body = f"blob-{process % 3}-{number}", self.random.randbytes(1_100_000)
            if self.random.random() < 0.2:
                s3.delete_object(Bucket="plain", Key=key)
                self.objects.pop(("plain", key, "null"), None)
                self.deleted.add(("plain", key, "null"))
                continue
            bucket = self.random.choice(["plain", "plain", "versions"])
            version = s3.put_object(Bucket=bucket, Key=key, Body=body, ACL="public-read").get("VersionId", "null")
            self.objects[bucket, key, version] = body
            self.deleted.discard((bucket, key, version))


@pytest.fixture(scope="module", params=["clean stop", "kill"])
def store(request, tmp_path_factory):
    return Store(str(tmp_path_factory.mktemp("damage")), request.param == "clean stop")


def injure(choice, data, old):
    """Damages one file, or swaps two. Returns a description, and the files before and after."""
    # A damaged format is refused, because the files of a newer one could look damaged.
    names = [name for name in files(data) if os.path.getsize(os.path.join(data, name)) and not name.endswith("FORMAT")]
    kind, name = choice.choice(KINDS), choice.choice(names)
    siblings = [other for other in names if os.path.dirname(other) == os.path.dirname(name) and other != name]
    other = choice.choice(siblings or [name])
    before = {name: read(os.path.join(data, name)) for name in {name, other}}
    after, content = dict(before), bytearray(before[name])
    at = choice.randrange(len(content))
    count = min(choice.randrange(1, 3000), len(content) - at)
    if kind == "flip":
        content[at] ^= 1 << choice.randrange(8)
    elif kind == "zero":
        content[at:at + count] = bytes(count)
    elif kind == "misdirect":
        source = before[other][:count]
        content[at:at + len(source)] = source
    elif kind == "truncate":
        del content[at:]
    elif kind == "copy":
        content = before[other]
    elif kind == "old copy" and os.path.exists(os.path.join(old, name)):
        content = read(os.path.join(old, name))
    after[name] = None if kind == "delete" else bytes(content)
    if kind == "swap":
        after[name], after[other] = before[other], before[name]
    for path, content in after.items():
        os.remove(os.path.join(data, path))
        if content is not None:
            with open(os.path.join(data, path), "wb") as file:
                file.write(content)
    return f"{kind} of {name} at {at}, {count} bytes, with {other}", before, after


def losses(store, before, after):
    """Returns the objects that certainly lost bytes of their body, and those that may have lost bytes of their record."""
    certain, possible = set(), set()
    for name, old in before.items():
        new = after[name] or b""
        if old == new:
            continue
        first = next((i for i, (a, b) in enumerate(zip(old, new)) if a != b), min(len(old), len(new)))
        tail = 0
        while len(old) == len(new) and old[-1 - tail] == new[-1 - tail]:
            tail += 1
        last = len(old) - tail
        for identity, body in store.objects.items():
            key = identity[1].encode()
            records = [(match.start(), match.start() + AROUND_KEY) for match in re.finditer(key, old)]
            at = old.find(body)
            if at >= 0:
                records.append((at - AROUND_KEY, at + len(body)))
                if first < at + len(body) and at < last:
                    certain.add(identity)
            if any(first < end and begin - AROUND_KEY < last for begin, end in records):
                possible.add(identity)
    return certain, possible


def read_all(server, store, what):
    """Returns the objects whose reads fail. Each other read returns what was written."""
    connection = http.client.HTTPConnection(server.url.split("//")[1], timeout=30)
    failing = set()
    for identity in [*store.objects, *store.deleted]:
        bucket, key, version = identity
        connection.request("GET", f"/{bucket}/{key}?" + urllib.parse.urlencode({"versionId": version}))
        response = connection.getresponse()
        try:
            status, body = response.status, response.read()
        except (http.client.IncompleteRead, ConnectionError):
            status, body = 500, b""
            connection.close()
        if status == 500:
            failing.add(identity)
        elif identity in store.deleted:
            assert status == 404, f"{what}: {identity} was deleted and is back: {status}"
        else:
            assert (status, body) == (200, store.objects[identity]), f"{what}: {identity}: {status}, other bytes"
    return failing


def scrub(data):
    done = subprocess.run([GATEWAY, "scrub", "--data", data, "--json"], capture_output=True, text=True)
    assert done.stdout, done.stderr
    found = json.loads(done.stdout)
    # The name of a bucket is not known if its settings are damaged.
    names = {"number 1": "plain", "number 2": "versions"}
    named, kept = ({(names.get(o["bucket"], o["bucket"]), o["key"], o["version"]) for o in found[kind]}
                   for kind in ("objects_damaged", "kept_damaged"))
    assert done.returncode == (1 if named or kept or found["damage"] else 0), done.stderr
    return named, found


def check(store, seed, data):
    choice = random.Random(seed)
    copy(store.data, data)
    what, before, after = injure(choice, data, store.old)
    certain, possible = losses(store, before, after)
    if certain:
        # The copy of a compaction that the kill has interrupted.
        contents = [read(os.path.join(data, name)) for name in files(data)]
        certain = {lost for lost in certain if not any(store.objects[lost] in content for content in contents)}
    # Damage of the log can make the catalog older than its tier.
    with start(data, "--restored") as server:
        failing = read_all(server, store, what)
    assert certain <= failing, f"{what}: {certain - failing} are lost and answer"
    named, found = scrub(data)
    what = f"{what}: {found['damage']}"
    assert named <= failing, f"{what}: scrub names {named - failing}, which answer"
    # Without its settings a bucket answers no request, and its name stands for its objects. No list has a deleted key.
    buckets = {bucket for bucket in ("plain", "versions")
               if any(f"the settings of bucket {bucket}" in damage for damage in found["damage"])}
    unnamed = {identity for identity in failing - store.deleted - named if identity[0] not in buckets}
    # The end of the log, which no index had after a crash, had the only copy of its keys.
    is_end_lost = not store.is_clean and any("log/" in damage for damage in found["damage"])
    assert not unnamed or is_end_lost, f"{what}: reads of {unnamed} fail, and scrub does not name them"
    is_log = any(name.endswith(".log") and before[name] != after[name] for name in before)
    if not is_log or store.is_clean:
        objects = {identity for identity in failing if identity[0] not in buckets}
        assert objects <= possible, f"{what}: {objects - possible} fail, although their bytes are intact"
    again = scrub(data)
    assert again[0] == named and bool(again[1]["damage"]) >= bool(found["damage"]), f"{what}: forgotten: {again}"
    subprocess.run([GATEWAY, "rebuild-index", "--data", data], capture_output=True)
    with start(data, "--restored") as server:
        later = read_all(server, store, f"{what}, after a rebuild of the index")
    assert failing <= later, f"{what}: {failing - later} are hidden by a rebuild of the index"
    return bool(failing), is_log


@pytest.mark.parametrize("part", range(2))
def test_damage_is_named_exactly_and_nothing_else_is_lost(store, part, tmp_path):
    results = []
    for seed in range(part, DAMAGES // 2, 2):
        data = str(tmp_path / "data")
        results.append(check(store, seed, data))
        shutil.rmtree(data)
    print(len(results), "damages,", sum(lost for lost, _ in results), "with losses,",
          sum(is_log for _, is_log in results), "of the log")
