"""`plimsoll-gateway run FILE`: blobs in several tiers, their moves, and reads while a tier does not answer."""
import json
import os
import random
import re
import signal
import subprocess
import time
import urllib.request

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from support import ACCESS, GATEWAY, SECRET, Server, free_port

pytestmark = pytest.mark.skipif(not os.path.exists(GATEWAY), reason="plimsoll-gateway is not built")

BLOB = 300_000


def client(server):
    return boto3.client("s3", endpoint_url=server.url, region_name="us-east-1", aws_access_key_id=ACCESS,
                        aws_secret_access_key=SECRET,
                        config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 1}))


def settings(directory, write='"hot"', moves="", retain="0s"):
    """Writes the settings of a gateway whose tiers are directories. Returns the name of the file."""
    path = directory / "gateway.toml"
    path.write_text(f"""
[catalog]
url = "dir:{directory}/catalog"
[tier.hot]
url = "file://{directory}/hot"
[tier.cold]
url = "file://{directory}/cold"
[write]
tier = {write}
inline = "4 KiB"
[retain]
deleted = "{retain}"
{moves}
""")
    return str(path)


def rule(keep="0s", when="age >= 0s", source="hot", to="cold"):
    return f"""
[[move]]
from = "{source}"
to = "{to}"
when = "{when}"
keep_source = "{keep}"
"""


def files(directory, tier):
    """Returns the blobs of a tier, without the records of its owner and its buckets, and what is being written of them."""
    found = (os.path.join(root, name) for root, _, names in os.walk(directory / tier) for name in names)
    return sorted(path for path in found if not re.search(r"plimsoll-(owner|buckets)\.json(#\d+)?$", path))


def wait(condition, what):
    """Waits for an event; the deadline only ends a test whose event never happens."""
    end = time.time() + 300
    while not condition():
        assert time.time() < end, what
        time.sleep(0.05)


def wait_for_visits(server):
    """Waits until the gateway has visited all objects twice from now on, so that it has made every move that is due."""
    def age():
        text = urllib.request.urlopen(server.metrics).read().decode()
        found = re.search(r"^plimsoll_gateway_survey_age_seconds ([\d.e+-]+)$", text, re.M)
        return float(found[1]) if found else float("inf")

    for _ in range(2):
        began = time.time()
        wait(lambda: age() < time.time() - began, "all objects are visited")


def run(path, *options):
    return Server(path, "--move-every", "50ms", "--metrics-listen", "127.0.0.1:0", *options, command=(GATEWAY, "run"))


def described(s3, key):
    head = s3.head_object(Bucket="tiers", Key=key)
    return {name: head[name] for name in ("ETag", "LastModified", "ContentLength", "ContentType", "Metadata")}


def test_a_move_changes_nothing_that_a_client_sees(tmp_path):
    path = settings(tmp_path)
    body, parts = os.urandom(BLOB), os.urandom(11_000_000)
    with run(path) as server:
        s3 = client(server)
        s3.create_bucket(Bucket="tiers")
        s3.put_object(Bucket="tiers", Key="a", Body=body, ContentType="text/x", Metadata={"m": "1"})
        s3.put_object(Bucket="tiers", Key="small", Body=b"inline")
        from boto3.s3.transfer import TransferConfig
        (tmp_path / "parts").write_bytes(parts)
        s3.upload_file(str(tmp_path / "parts"), "tiers", "parts", Config=TransferConfig(multipart_threshold=1, multipart_chunksize=5 << 20))
        before = {key: described(s3, key) for key in ("a", "small", "parts")}
    # A blob, three parts, and the list of the parts.
    assert len(files(tmp_path, "hot")) == 5 and not files(tmp_path, "cold")
    with run(settings(tmp_path, moves=rule())) as server:
        s3 = client(server)
        wait(lambda: len(files(tmp_path, "cold")) == 5 and not files(tmp_path, "hot"), "the blobs are moved")
        assert {key: described(s3, key) for key in before} == before
        assert s3.get_object(Bucket="tiers", Key="a")["Body"].read() == body
        assert s3.get_object(Bucket="tiers", Key="parts", Range="bytes=5242870-5242889")["Body"].read() == \
            parts[5242870:5242890]
        assert s3.get_object(Bucket="tiers", Key="parts")["Body"].read() == parts
        s3.delete_object(Bucket="tiers", Key="a")
        s3.delete_object(Bucket="tiers", Key="parts")
        wait(lambda: not files(tmp_path, "cold"), "the blobs of deleted objects are deleted")


def test_only_the_blobs_that_the_condition_names_move(tmp_path):
    with run(settings(tmp_path, moves=rule(when="prefix = 'logs/' and size >= 300 KB"))) as server:
        s3 = client(server)
        s3.create_bucket(Bucket="tiers")
        for key, size in (("logs/a", BLOB), ("logs/b", BLOB - 1), ("data/a", BLOB)):
            s3.put_object(Bucket="tiers", Key=key, Body=b"x" * size)
        counts = lambda: (len(files(tmp_path, "hot")), len(files(tmp_path, "cold")))
        wait(lambda: counts() == (2, 1), "the blob is moved")
        wait_for_visits(server)
        assert counts() == (2, 1)


def test_reads_use_the_other_place_while_one_fails(tmp_path):
    body = os.urandom(3_000_000)
    with run(settings(tmp_path, write='["hot", "cold"]')) as server:
        s3 = client(server)
        s3.create_bucket(Bucket="tiers")
        for key in ("missing", "damaged", "lost"):
            s3.put_object(Bucket="tiers", Key=key, Body=body)
        for path in files(tmp_path, "hot"):
            with open(path, "r+b") as f:
                f.seek(2_000_000)
                f.write(bytes([body[2_000_000] ^ 1]))
        # The damage is found in the middle of the body, and the rest comes from the other tier.
        assert s3.get_object(Bucket="tiers", Key="damaged")["Body"].read() == body
        for path in files(tmp_path, "hot"):
            os.remove(path)
        assert s3.get_object(Bucket="tiers", Key="missing", Range="bytes=2000000-")["Body"].read() == body[2_000_000:]
        for path in files(tmp_path, "cold"):
            os.remove(path)
        with pytest.raises(ClientError) as error:
            s3.get_object(Bucket="tiers", Key="lost")
        # Never 404, because the object exists, and never 503, because its tiers answer.
        assert error.value.response["ResponseMetadata"]["HTTPStatusCode"] == 500


def test_the_source_stays_for_the_rollback_window(tmp_path):
    with run(settings(tmp_path, moves=rule(keep="1h"))) as server:
        s3 = client(server)
        s3.create_bucket(Bucket="tiers")
        s3.put_object(Bucket="tiers", Key="a", Body=b"x" * BLOB)
        wait(lambda: files(tmp_path, "cold"), "the blob is moved")
        wait_for_visits(server)
        assert len(files(tmp_path, "hot")) == 1
        os.remove(files(tmp_path, "cold")[0])
        assert s3.get_object(Bucket="tiers", Key="a")["Body"].read() == b"x" * BLOB


def moves_planned(path):
    """Returns the number of moves that the rules would begin now."""
    done = subprocess.run([GATEWAY, "plan", path, "--json"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["moves"]


def test_a_move_is_rolled_back_while_its_source_exists(tmp_path):
    path = settings(tmp_path, moves=rule(keep="1h"))
    with run(path) as server:
        s3 = client(server)
        s3.create_bucket(Bucket="tiers")
        for key in ("a", "b/c"):
            s3.put_object(Bucket="tiers", Key=key, Body=key.encode() * BLOB)
        wait(lambda: len(files(tmp_path, "cold")) == 2, "the blobs are copied")
        wait(lambda: moves_planned(path) == 0, "the moves end")

    def rollback(*more):
        done = subprocess.run([GATEWAY, "rollback", path, "--json", *more], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["moves"]

    assert rollback("--dry-run") == 2
    assert rollback("--bucket", "tiers", "--prefix", "b/") == 1
    unknown = subprocess.run([GATEWAY, "rollback", path, "--bucket", "other"], capture_output=True, text=True)
    assert unknown.returncode == 2 and "--bucket other: there is no such bucket" in unknown.stderr
    assert rollback() == 1
    assert rollback() == 0
    with run(settings(tmp_path)) as server:
        wait(lambda: not files(tmp_path, "cold"), "the destinations are deleted")
        assert len(files(tmp_path, "hot")) == 2
        for key in ("a", "b/c"):
            assert client(server).get_object(Bucket="tiers", Key=key)["Body"].read() == key.encode() * BLOB


def back(**more):
    """Returns the rule in the other direction."""
    return rule(**more, source="cold", to="hot")


def killed_eight_times(path, seed, keys, size, deletes):
    """Writes, reads and deletes objects while the gateway is killed. Returns the objects that must exist."""
    choice = random.Random(seed)
    expected = {}
    for _ in range(8):
        server = run(path)
        s3 = client(server)
        if not expected:
            s3.create_bucket(Bucket="tiers")
        end = time.time() + choice.uniform(0.2, 1.0)
        while time.time() < end:
            key, body = f"k{choice.randrange(keys)}", choice.randbytes(size(choice))
            s3.put_object(Bucket="tiers", Key=key, Body=body)
            expected[key] = body
            key = choice.choice(list(expected))
            if choice.random() < deletes:
                s3.delete_object(Bucket="tiers", Key=key)
                del expected[key]
            else:
                assert s3.get_object(Bucket="tiers", Key=key)["Body"].read() == expected[key]
        server.process.send_signal(signal.SIGKILL)
        server.process.wait()
    return expected


def test_kills_during_moves_lose_nothing_and_leave_no_orphans(tmp_path):
    path = settings(tmp_path, moves=rule() + back())
    expected = killed_eight_times(path, 1, keys=12, size=lambda _: BLOB, deletes=0)
    with run(settings(tmp_path)) as server:
        s3 = client(server)
        for key, body in expected.items():
            assert s3.get_object(Bucket="tiers", Key=key)["Body"].read() == body
        count = lambda: len(files(tmp_path, "hot")) + len(files(tmp_path, "cold"))
        wait(lambda: count() == len(expected), "everything that no object refers to is deleted")


PACK = '''
[pack]
tier = "hot"
max_body = "64 KiB"
file_size = "1 MiB"
min_age = "0s"
max_wait = "0s"
'''


def test_small_bodies_are_packed_without_a_visible_change(tmp_path):
    path = settings(tmp_path, moves=PACK)
    bodies = {f"dir/k{number:04}": os.urandom(500 + number * 7) for number in range(1500)}
    bodies["blob"] = os.urandom(60_000)
    bodies["large"] = os.urandom(BLOB)
    with run(path) as server:
        s3 = client(server)
        s3.create_bucket(Bucket="tiers")
        for key, body in bodies.items():
            s3.put_object(Bucket="tiers", Key=key, Body=body, ContentType="text/x", Metadata={"m": "1"})
        before = {key: described(s3, key) for key in ("dir/k0000", "dir/k1499", "blob", "large")}

        def is_packed():
            # About 9 MB in segments: full ones, and at most three of each similar size. And the large blob.
            return len(files(tmp_path, "hot")) < 25
        wait(is_packed, "the bodies are packed")
        assert {key: described(s3, key) for key in before} == before
        for key, body in bodies.items():
            assert s3.get_object(Bucket="tiers", Key=key)["Body"].read() == body
        assert s3.get_object(Bucket="tiers", Key="dir/k1499", Range="bytes=10-19")["Body"].read() == \
            bodies["dir/k1499"][10:20]
        s3.copy_object(Bucket="tiers", Key="copy", CopySource="tiers/dir/k0700")
        s3.put_object_tagging(Bucket="tiers", Key="blob", Tagging={"TagSet": [{"Key": "a", "Value": "b"}]})
        assert s3.get_object(Bucket="tiers", Key="copy")["Body"].read() == bodies["dir/k0700"]
        assert s3.get_object(Bucket="tiers", Key="blob")["Body"].read() == bodies["blob"]
    done = subprocess.run([GATEWAY, "scrub", path, "--json"], capture_output=True, text=True)
    assert done.returncode == 0 and not json.loads(done.stdout)["damage"], done.stdout + done.stderr
    # One damaged byte in a segment is attributed to its object.
    done = subprocess.run([GATEWAY, "where", path, "--object", "tiers/dir/k0701", "--json"], capture_output=True, text=True)
    piece = json.loads(done.stdout)["pieces"][0]
    with open(tmp_path / "hot" / piece["copies"][0]["object"], "r+b") as f:
        f.seek(piece["slice"]["offset"])
        byte = f.read(1)[0]
        f.seek(piece["slice"]["offset"])
        f.write(bytes([byte ^ 1]))
    done = subprocess.run([GATEWAY, "scrub", path, "--json"], capture_output=True, text=True)
    assert done.returncode == 1 and "dir/k0701" in str(json.loads(done.stdout)["objects_damaged"]), done.stdout
    assert len(json.loads(done.stdout)["objects_damaged"]) == 1, done.stdout


def test_kills_while_bodies_are_packed_lose_nothing_and_leave_no_orphans(tmp_path):
    path = settings(tmp_path, moves=PACK + rule(when="suffix = '0'") + back(when="suffix = '5'"))
    expected = killed_eight_times(path, 2, keys=300, size=lambda choice: choice.randrange(1, 20_000), deletes=0.2)
    with run(path) as server:
        s3 = client(server)
        listed = [o["Key"] for page in s3.get_paginator("list_objects_v2").paginate(Bucket="tiers")
                  for o in page.get("Contents", [])]
        assert listed == sorted(expected)
        for key, body in expected.items():
            assert s3.get_object(Bucket="tiers", Key=key)["Body"].read() == body
        for key in expected:
            s3.delete_object(Bucket="tiers", Key=key)
        wait(lambda: not files(tmp_path, "hot") and not files(tmp_path, "cold"), "everything is deleted")


def test_a_tier_on_s3_that_does_not_answer_affects_only_its_own_objects(tmp_path, monkeypatch):
    monkeypatch.setenv("COLD_ACCESS", ACCESS)
    monkeypatch.setenv("COLD_SECRET", SECRET)
    cold = ("--data", str(tmp_path / "backend"))
    backend = Server(*cold, command=(GATEWAY, "run"), listen=f"127.0.0.1:{free_port()}")
    client(backend).create_bucket(Bucket="backend")
    path = settings(tmp_path, moves=rule(when="prefix = 'cold/'"))
    text = (tmp_path / "gateway.toml").read_text().replace(
        f'url = "file://{tmp_path}/cold"',
        f'url = "s3://backend/gateway?endpoint={backend.url}"\naccess_key_env = "COLD_ACCESS"\nsecret_key_env = "COLD_SECRET"')
    (tmp_path / "gateway.toml").write_text(text)
    bodies = {"cold/a": os.urandom(BLOB), "cold/parts": os.urandom(20_000_000), "hot/a": os.urandom(BLOB)}

    def names():
        listed = client(backend).list_objects_v2(Bucket="backend").get("Contents", [])
        assert all(o["Key"].startswith("gateway/") for o in listed)
        return [o["Key"] for o in listed if o["Key"] not in ("gateway/plimsoll-owner.json", "gateway/plimsoll-buckets.json")]

    with run(path) as server:
        s3 = client(server)
        s3.create_bucket(Bucket="tiers")
        for key, body in bodies.items():
            s3.put_object(Bucket="tiers", Key=key, Body=body)
        wait(lambda: len(names()) == 2 and len(files(tmp_path, "hot")) == 1, "the blobs are moved")
        for key, body in bodies.items():
            assert s3.get_object(Bucket="tiers", Key=key)["Body"].read() == body
        backend.process.send_signal(signal.SIGKILL)
        backend.process.wait()
        with pytest.raises(ClientError) as error:
            s3.get_object(Bucket="tiers", Key="cold/a")
        assert error.value.response["Error"]["Code"] == "ServiceUnavailable"
        assert s3.head_object(Bucket="tiers", Key="cold/a")["ContentLength"] == BLOB
        assert s3.get_object(Bucket="tiers", Key="hot/a")["Body"].read() == bodies["hot/a"]
        s3.put_object(Bucket="tiers", Key="hot/b", Body=bodies["hot/a"])
        backend = Server(*cold, command=(GATEWAY, "run"), listen=backend.url.removeprefix("http://"))
        assert s3.get_object(Bucket="tiers", Key="cold/a")["Body"].read() == bodies["cold/a"]
        s3.delete_object(Bucket="tiers", Key="cold/parts")
        wait(lambda: len(names()) == 1, "the blob of the deleted object is deleted")
    backend.process.terminate()


def test_reads_do_not_wait_for_a_tier_that_hangs(tmp_path):
    """A read that waited for the hung tier took 60 seconds although the other tier had the bytes."""
    hot = Server("--quiet")
    client(hot).create_bucket(Bucket="backend")
    path = settings(tmp_path, write='["hot", "cold"]')
    text = (tmp_path / "gateway.toml").read_text()
    (tmp_path / "gateway.toml").write_text(text.replace(f"file://{tmp_path}/hot", f"s3://backend?endpoint={hot.url}"))
    bodies = {f"key-{number}": os.urandom(BLOB) for number in range(20)}
    with run(path) as server:
        s3 = client(server)
        s3.create_bucket(Bucket="bucket")
        for key, body in bodies.items():
            s3.put_object(Bucket="bucket", Key=key, Body=body)
        answers = lambda: re.search(r'^plimsoll_gateway_tier_answers{tier="hot"} (\d)',
                                    urllib.request.urlopen(server.metrics).read().decode(), re.M)[1]
        assert answers() == "1"
        hot.process.send_signal(signal.SIGSTOP)
        impatient = boto3.client("s3", endpoint_url=server.url, region_name="us-east-1", aws_access_key_id=ACCESS,
                                 aws_secret_access_key=SECRET,
                                 config=Config(read_timeout=30, retries={"total_max_attempts": 1}))
        for key, body in bodies.items():
            assert impatient.get_object(Bucket="bucket", Key=key)["Body"].read() == body
        assert answers() == "0"
        hot.process.send_signal(signal.SIGCONT)
        wait(lambda: s3.get_object(Bucket="bucket", Key="key-1")["Body"].read() and answers() == "1",
             "the tier is not used again")
    hot.process.terminate()


def test_the_keys_of_a_tier_rotate_without_a_restart(tmp_path):
    """At SIGHUP the gateway reads the keys of its tiers again; a file that cannot be used changes nothing."""
    accounts, keys = tmp_path / "accounts.toml", tmp_path / "keys"

    def backend_has(*pairs):
        accounts.write_text("".join(f"[[account]]\naccess_key = '{access}'\nsecret_key = '{secret}'\nwrite = true\n"
                                    for access, secret in pairs))
        accounts.chmod(0o600)

    def tier_uses(access, secret, mode=0o600):
        keys.write_text(f"[other]\naws_access_key_id = x\naws_secret_access_key = y\n"
                        f"[tier]\naws_access_key_id = {access}\naws_secret_access_key = {secret}\n")
        keys.chmod(mode)

    backend_has((ACCESS, SECRET), ("tier", "first-secret"))
    tier_uses("tier", "first-secret")
    path = settings(tmp_path)
    backend = Server("--data", str(tmp_path / "backend"), "--credentials", str(accounts), command=(GATEWAY, "run"))
    text = (tmp_path / "gateway.toml").read_text().replace(
        f'url = "file://{tmp_path}/hot"',
        f'url = "s3://backend/x?endpoint={backend.url}"\ncredentials_file = "{keys}"\nprofile = "tier"')
    (tmp_path / "gateway.toml").write_text(text)
    client(backend).create_bucket(Bucket="backend")
    client(backend).put_bucket_acl(Bucket="backend", ACL="private")
    with backend, run(path) as server:
        s3 = client(server)
        s3.create_bucket(Bucket="tiers")

        def works():
            try:
                s3.put_object(Bucket="tiers", Key="k", Body=os.urandom(BLOB))
                return True
            except ClientError:
                return False

        assert works()
        backend_has((ACCESS, SECRET), ("tier", "second-secret"))
        backend.process.send_signal(signal.SIGHUP)
        wait(lambda: not works(), "the backend refuses the old secret")
        tier_uses("tier", "second-secret")
        server.process.send_signal(signal.SIGHUP)
        wait(works, "the gateway uses the new secret")
        tier_uses("tier", "unreadable", mode=0o644)
        server.process.send_signal(signal.SIGHUP)
        wait_for_visits(server)
        assert works()
    refused = subprocess.run([GATEWAY, "sweep", path], capture_output=True, text=True)
    assert refused.returncode == 2 and f"run `chmod 600 {keys}`" in refused.stderr, refused.stderr
    assert "unreadable" not in refused.stderr


def test_a_lifecycle_rule_of_a_bucket_moves_objects_to_the_tier_of_a_storage_class(tmp_path):
    path = settings(tmp_path)
    text = open(path).read().replace('/cold"', '/cold"\nlifecycle_classes = ["STANDARD_IA", "GLACIER"]')
    with open(path, "w") as f:
        f.write(text)

    def transition(storage_class):
        return {"Rules": [{"ID": "down", "Status": "Enabled", "Filter": {"Prefix": "logs/"},
                           "Transitions": [{"Days": 1, "StorageClass": storage_class}]}]}

    with Server(path, "--move-every", "50ms", "--lifecycle-day", "1s", command=(GATEWAY, "run")) as server:
        s3 = client(server)
        s3.create_bucket(Bucket="tiers")
        for key in ("logs/a", "data/a"):
            s3.put_object(Bucket="tiers", Key=key, Body=b"x" * BLOB)
        with pytest.raises(ClientError) as error:
            s3.put_bucket_lifecycle_configuration(Bucket="tiers", LifecycleConfiguration=transition("DEEP_ARCHIVE"))
        assert "the classes are GLACIER, STANDARD_IA" in str(error.value)
        s3.put_bucket_lifecycle_configuration(Bucket="tiers", LifecycleConfiguration=transition("GLACIER"))
        assert s3.get_bucket_lifecycle_configuration(Bucket="tiers")["Rules"] == transition("GLACIER")["Rules"]
        wait(lambda: len(files(tmp_path, "cold")) == 1, "the object is moved")
        assert s3.get_object(Bucket="tiers", Key="logs/a")["Body"].read() == b"x" * BLOB
        s3.delete_bucket_lifecycle(Bucket="tiers")
    # Without tiers for storage classes, transitions are not implemented.
    with Server("--data", str(tmp_path / "data"), command=(GATEWAY, "run")) as server:
        s3 = client(server)
        s3.create_bucket(Bucket="tiers")
        with pytest.raises(ClientError) as error:
            s3.put_bucket_lifecycle_configuration(Bucket="tiers", LifecycleConfiguration=transition("GLACIER"))
        assert error.value.response["Error"]["Code"] == "NotImplemented"


def test_a_sweep_finds_and_deletes_only_orphans(tmp_path):
    path = settings(tmp_path, moves=rule(when="suffix = '1'", keep="1h"))

    def sweep(*options, code=0):
        result = subprocess.run([GATEWAY, "sweep", path, "--json", "--older-than", "0s", *options],
                                capture_output=True, text=True)
        assert result.returncode == code, result.stderr
        return json.loads(result.stdout)["hot"], result.stderr

    with run(path) as server:
        s3 = client(server)
        s3.create_bucket(Bucket="tiers")
        for number in range(20):
            s3.put_object(Bucket="tiers", Key=f"k{number}", Body=str(number).encode() * BLOB)
        wait(lambda: len(files(tmp_path, "cold")) == 2, "nothing was moved")
        known = files(tmp_path, "hot")
        name = "0190000000007000800000000000aabb"
        for orphan in (f"hot/bb/{name}", "hot/bb/notes.txt", f"hot/cc/{name}"):
            (tmp_path / orphan).parent.mkdir(exist_ok=True)
            (tmp_path / orphan).write_bytes(b"orphan")
        found, _ = sweep()
        assert (found["objects"], found["orphans"], found["bytes"], found["deleted"]) == (21, 1, 6, 0)
        _, error = sweep("--delete", "--max-share", "1", code=1)
        assert "is this the right catalog" in error and len(files(tmp_path, "hot")) == len(known) + 3
        found, _ = sweep("--delete")
        assert found["deleted"] == 1
        assert set(files(tmp_path, "hot")) - set(known) == {str(tmp_path / "hot/bb/notes.txt"), str(tmp_path / f"hot/cc/{name}")}
        for number in range(20):
            assert s3.get_object(Bucket="tiers", Key=f"k{number}")["Body"].read() == str(number).encode() * BLOB
