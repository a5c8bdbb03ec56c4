"""Starts that are refused, and gateways that meet by mistake: nothing is changed, and no acknowledged write is lost."""
import hashlib
import json
import os
import shutil
import socket
import subprocess
import urllib.error
import urllib.request

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from support import ACCESS, GATEWAY, SECRET, Server, environment
from test_tiers import wait

pytestmark = pytest.mark.skipif(not os.path.exists(GATEWAY), reason="plimsoll-gateway is not built")

KEYS = ("--access-key", ACCESS, "--secret-key", SECRET)
BLOB = 300_000
# Settings of [backup]: how a gateway protects itself.
KINDS = {"none": None, "local": "", "lease": 'lease = "3s"\n', "tier": 'durability = "tier"\nlease = "3s"\n'}


def client(server):
    return boto3.client("s3", endpoint_url=server.url, region_name="us-east-1", aws_access_key_id=ACCESS,
                        aws_secret_access_key=SECRET,
                        config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 1}))


def settings(directory, store, kind, places=None, more=""):
    """Writes the settings of a gateway with two tiers, and a backup of a kind, in an S3 store."""
    directory.mkdir(exist_ok=True)
    url = lambda name: f"s3://{name}/x?endpoint={store.url}"
    places = {"hot": url("hot"), "cold": url("cold"), "place": url("place"), **(places or {})}
    backup = "" if KINDS[kind] is None else f'[backup]\nto = "{places["place"]}"\nevery = "1s"\n{KINDS[kind]}'
    path = directory / "gateway.toml"
    path.write_text(f"""
[catalog]
url = "dir:{directory}/catalog"
[tier.hot]
url = "{places['hot']}"
[tier.cold]
url = "{places['cold']}"
[write]
tier = "hot"
inline = "4 KiB"
{backup}{more}
""")
    return str(path)


def run(path, *more):
    return Server("--metrics-listen", "127.0.0.1:0", "--move-every", "50ms", *more, command=(GATEWAY, "run", path))


def contents(store):
    """Returns the digests of all objects of a store."""
    s3, found = client(store), {}
    for bucket in s3.list_buckets()["Buckets"]:
        for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket["Name"]):
            for item in page.get("Contents", []):
                body = s3.get_object(Bucket=bucket["Name"], Key=item["Key"])["Body"].read()
                found[bucket["Name"], item["Key"]] = hashlib.sha256(body).hexdigest()
    return found


def tree(directory):
    """Returns the digests of all files below a directory, and its empty directories."""
    found = {}
    for root, _, names in os.walk(directory):
        found[root] = None
        for name in names:
            path = os.path.join(root, name)
            if not name.endswith(".sock"):
                with open(path, "rb") as file:
                    found[path] = hashlib.sha256(file.read()).hexdigest()
    return found


def refused(path, *words, more=(), code=3):
    done = subprocess.run([GATEWAY, "run", path, "--listen", "127.0.0.1:0", *KEYS, *more], capture_output=True, text=True,
                          env=environment(), timeout=120)
    assert done.returncode == code and all(word in done.stderr for word in words), (done.returncode, done.stderr)


@pytest.fixture
def store():
    with Server() as one:
        for name in ("hot", "cold", "place", "hot2", "cold2", "place2"):
            client(one).create_bucket(Bucket=name)
        yield one


def fill(server):
    s3 = client(server)
    s3.create_bucket(Bucket="bucket")
    for number in range(5):
        s3.put_object(Bucket="bucket", Key=f"large{number}", Body=os.urandom(BLOB))
        s3.put_object(Bucket="bucket", Key=f"small{number}", Body=os.urandom(100))


@pytest.mark.parametrize("kind", list(KINDS))
def test_a_refused_start_has_changed_nothing(tmp_path, store, kind):
    """Regression test: a gateway that was refused had ended the backup of another one before."""
    first = settings(tmp_path / "a", store, kind, more='[[move]]\nfrom = "hot"\nto = "cold"\nwhen = "suffix = \'0\'"\n')
    with run(first) as server:
        fill(server)
        wait(lambda: any(bucket == "cold" and "owner" not in key and "buckets" not in key for bucket, key in contents(store)),
             "a blob is moved")
        shutil.copytree(tmp_path / "a" / "catalog", tmp_path / "older", ignore=shutil.ignore_patterns("admin.sock"))
        position = lambda: json.loads(client(store).get_object(Bucket="hot", Key="x/plimsoll-owner.json")["Body"].read())["position"]
        before = position()
        client(server).put_object(Bucket="bucket", Key="last", Body=os.urandom(BLOB))
        wait(lambda: position() > before, "the position is recorded")
    url = lambda name: f"s3://{name}/x?endpoint={store.url}"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        cases = {
            "an empty directory, and tiers of another catalog": (
                {"place": url("place2")}, "", ["tier ", "belongs to another catalog"], (), 3),
            "an empty directory, and the backup of another catalog": (
                {"hot": url("hot2"), "cold": url("cold2")}, "", ["the catalog is empty", "restore", "--follow"], (), 3),
        }
        if kind == "none":
            del cases["an empty directory, and the backup of another catalog"]
        if kind in ("lease", "tier"):
            # The journal of the place is continued by an empty directory, if its tiers belong to the same catalog.
            client(store).create_bucket(Bucket="hot3")
            client(store).put_object(Bucket="hot3", Key="x/plimsoll-owner.json", Body=json.dumps(
                {"catalog": "00" * 16, "position": 1, "writer": "", "written": "2026-01-01T00:00:00Z"}).encode())
            cases["an empty directory, and the backup of another catalog"] = (
                {"hot": url("hot3")}, "", ["tier hot belongs to another catalog"], (), 3)
        copied = {
            "swapped tiers": ({"hot": url("cold"), "cold": url("hot")}, "", ["is that of tier ", "swapped"], (), 3),
            "a tier that is gone": ({"cold": url("cold2")}, "", ["the catalog has blobs there", "replace-tier"], (), 3),
            "a directory that is not mounted": (
                {"cold": f"file://{tmp_path}/missing"}, "", ["the catalog has blobs there"], (), 3),
            "metrics on a used address": ({}, "", ["--metrics-listen"], ("--metrics-listen", address), 2),
            "a console on a used address": ({}, "", ["--admin-listen"], ("--admin-listen", address), 2),
            "an access log in a missing directory": ({}, "", ["--access-log"], ("--access-log", f"{tmp_path}/missing/log"), 2),
            "a cache in a file": (
                {}, f'[cache]\ndir = "{tmp_path}/a/gateway.toml/cache"\nsize = "1 GiB"\n', ["cache: "], (), 3),
            "a wrong time": ({}, "", ["--move-every"], ("--move-every", "soon"), 2),
            "a rule without prices": (
                {}, '[[move]]\nfrom = "hot"\nto = "cold"\nwhen = "age > 1d"\nonly_if_cheaper = true\nstay = "30d"\n', [], (), 2),
        }
        for name, (places, more, words, flags, code) in {**cases, **copied}.items():
            other = tmp_path / "b"
            path = settings(other, store, kind, places, more)
            if name in copied:
                shutil.copytree(tmp_path / "a" / "catalog", other / "catalog")
            before = contents(store), tree(other), tree(tmp_path / "a")
            refused(path, *words, more=flags, code=code)
            assert (contents(store), tree(other), tree(tmp_path / "a")) == before, name
            assert not (tmp_path / "missing").exists(), name
            shutil.rmtree(other)
    if kind in ("none", "local"):
        other = tmp_path / "b"
        path = settings(other, store, kind)
        shutil.copytree(tmp_path / "older", other / "catalog")
        before = contents(store), tree(other)
        refused(path, "is older" if kind == "none" else "that this directory does not have")
        assert (contents(store), tree(other)) == before
    with run(first) as server:
        assert client(server).get_object(Bucket="bucket", Key="last")["ContentLength"] == BLOB


def works(s3, key):
    """Writes an object. Returns true if the write is acknowledged."""
    try:
        s3.put_object(Bucket="bucket", Key=key, Body=os.urandom(100))
        return True
    except (ClientError, BotoCoreError):
        return False


def is_ready(server):
    try:
        with urllib.request.urlopen(server.metrics.replace("/metrics", "/readyz"), timeout=60) as answer:
            return answer.status == 200
    except (urllib.error.URLError, OSError):
        return False


def restored(tmp_path, store, kind):
    """Returns a copy of the newest state, in a directory."""
    path = settings(tmp_path / "b", store, kind)
    command = [GATEWAY, "restore", path] if kind != "none" else None
    if command:
        done = subprocess.run(command, capture_output=True, text=True, env=environment())
        assert done.returncode == 0, done.stderr
    else:
        shutil.copytree(tmp_path / "a" / "catalog", tmp_path / "b" / "catalog", ignore=shutil.ignore_patterns("admin.sock"))
    return path


@pytest.mark.parametrize("kind", ["none", "local"])
def test_a_look_at_an_earlier_state_does_not_take_over(tmp_path, store, kind):
    """Regression test: `run FILE --restored` led and moved if the restored state was not older than the tiers' record."""
    move = '[[move]]\nfrom = "hot"\nto = "cold"\nwhen = "prefix = \'late\'"\n'
    first = settings(tmp_path / "a", store, kind, more=move)
    with run(first) as server:
        fill(server)
        if kind == "local":
            wait(lambda: "; complete" in subprocess.run([GATEWAY, "status", first], capture_output=True, text=True).stdout,
                 "everything is shipped")
        path = restored(tmp_path, store, kind)
        with open(path, "a") as file:
            file.write(move.replace("late", "large"))
        before = {place: digest for place, digest in contents(store).items() if place[0] in ("cold", "place")}
        with run(path, "--restored") as look:
            assert client(look).get_object(Bucket="bucket", Key="large0")["ContentLength"] == BLOB
            status = json.loads(subprocess.run([GATEWAY, "status", path, "--json"], capture_output=True, text=True).stdout)
            assert status["leader"] is None
            # Production moves as before.
            client(server).put_object(Bucket="bucket", Key="late", Body=os.urandom(BLOB))
            wait(lambda: len({place for place in contents(store) if place[0] == "cold"}) > len(
                [place for place in before if place[0] == "cold"]), "production does not move")
        after = contents(store)
        assert {place for place in before if place[0] == "cold"} <= set(after)
        assert is_ready(server) and works(client(server), "again")
    with run(first) as server:
        assert works(client(server), "restarted") and is_ready(server)


@pytest.mark.parametrize("copies", [False, True], ids=["empty", "copied"])
@pytest.mark.parametrize("second", list(KINDS))
@pytest.mark.parametrize("first", list(KINDS))
def test_two_gateways_on_one_place_lose_no_acknowledged_write(tmp_path, store, first, second, copies):
    """Regression test: two gateways acknowledged writes of one store that the other one did not have."""
    with run(settings(tmp_path / "a", store, first)) as a:
        fill(a)
        status = lambda: subprocess.run([GATEWAY, "status", str(tmp_path / "a" / "gateway.toml")], capture_output=True,
                                        text=True).stdout
        if first == "local":
            wait(lambda: "; complete" in status(), "everything is shipped")
        path = settings(tmp_path / "b", store, second)
        if copies:
            shutil.copytree(tmp_path / "a" / "catalog", tmp_path / "b" / "catalog",
                            ignore=shutil.ignore_patterns("admin.sock"))
        log = tmp_path / "log"
        with open(log, "w") as err:
            b = subprocess.Popen([GATEWAY, "run", path, "--listen", "127.0.0.1:0", "--move-every", "50ms", *KEYS],
                                 env=environment(), stdout=subprocess.PIPE, stderr=err, text=True)
        line = b.stdout.readline()
        if not line:
            # Refused: the first one goes on.
            assert b.wait() in (2, 3), log.read_text()
            assert is_ready(a) and works(client(a), "after"), log.read_text()
            return
        assert copies, f"a gateway with an empty directory has begun beside another one: {log.read_text()}"
        survivor = type("Url", (), {"url": line.split()[-1]})()
        # One of the two does not accept writes any more.
        wait(lambda: not is_ready(a) or b.poll() is not None or not works(client(survivor), "probe"), "both go on")
        if not is_ready(a):
            wait(lambda: not works(client(a), "lost"), "the first one acknowledges writes")
            assert works(client(survivor), "kept"), log.read_text()
            for number in range(5):
                assert client(survivor).get_object(Bucket="bucket", Key=f"large{number}")["ContentLength"] == BLOB
        else:
            assert works(client(a), "kept")
        b.terminate()
        b.wait()
        if not is_ready(a):
            a.process.terminate()
            assert a.process.wait() == 3
            a.process.terminate = lambda: None
            a.process.returncode = 0
            a.process.wait = lambda **_: 0
