"""`plimsoll-gateway backup --to`: the store of one moment, catalog and bodies, restored elsewhere byte for byte."""
import hashlib
import os
import random
import re
import shutil
import subprocess
import threading
import time

import pytest

from postgres import Postgres, programs
from support import GATEWAY, ROOT, Server, environment
from test_postgres import FAKE_TIME, metric, shared
from test_tiers import client, files, run, settings, wait

pytestmark = pytest.mark.skipif(not os.path.exists(GATEWAY), reason="plimsoll-gateway is not built")

# Histories of each kind; the bar of the issue uses 200.
HISTORIES = int(os.environ.get("PLIMSOLL_HISTORIES", "2"))
LARGEST = int(os.environ.get("PLIMSOLL_LARGEST", "6000000"))


def serve(directory):
    return Server(command=(GATEWAY, "run", "--data", str(directory)))


def command(*words, code=0, cwd=None):
    done = subprocess.run([GATEWAY, *words], capture_output=True, text=True, env=environment(), cwd=cwd)
    assert done.returncode == code, (words, done.stdout, done.stderr)
    return done.stdout if code == 0 else done.stderr


def everything(s3):
    """Returns the digests of all versions of all objects."""
    found = {}
    for bucket in s3.list_buckets()["Buckets"]:
        name = bucket["Name"]
        for page in s3.get_paginator("list_object_versions").paginate(Bucket=name):
            for version in page.get("Versions", []):
                body = s3.get_object(Bucket=name, Key=version["Key"], VersionId=version["VersionId"])["Body"]
                digest = hashlib.sha256()
                for chunk in iter(lambda: body.read(1 << 20), b""):
                    digest.update(chunk)
                found[name, version["Key"], version["VersionId"]] = (digest.hexdigest(), version["ETag"])
            for marker in page.get("DeleteMarkers", []):
                found[name, marker["Key"], marker["VersionId"]] = "deleted"
    return found


def change(s3, choice, operations):
    """Writes, replaces, copies and deletes objects of all sizes, also in parts."""
    for _ in range(operations):
        bucket, key = choice.choice(["plain", "versions"]), f"k{choice.randrange(30)}"
        action = choice.random()
        if action < 0.6:
            largest = choice.choice([10, 10_000, 1_100_000, LARGEST])
            s3.put_object(Bucket=bucket, Key=key, Body=choice.randbytes(choice.randrange(largest)))
        elif action < 0.7:
            upload = s3.create_multipart_upload(Bucket=bucket, Key=key)["UploadId"]
            parts = [{"PartNumber": number, "ETag": s3.upload_part(
                Bucket=bucket, Key=key, UploadId=upload, PartNumber=number, Body=choice.randbytes(size))["ETag"]}
                for number, size in ((1, 5 << 20), (2, choice.randrange(1, 2_000_000)))]
            s3.complete_multipart_upload(Bucket=bucket, Key=key, UploadId=upload, MultipartUpload={"Parts": parts})
        else:
            s3.delete_object(Bucket=bucket, Key=key)


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_a_store_is_restored_elsewhere_byte_for_byte(tmp_path, seed):
    """Regression test: `backup --data` copied the catalog without bodies above 1 MiB, and said that it was a backup."""
    choice, data, place = random.Random(seed), tmp_path / "data", str(tmp_path / "backup")
    with serve(data) as server:
        s3 = client(server)
        for bucket in ("plain", "versions"):
            s3.create_bucket(Bucket=bucket)
        s3.put_bucket_versioning(Bucket="versions", VersioningConfiguration={"Status": "Enabled"})
        for number in range(3):
            change(s3, choice, 20)
            before = everything(s3)
            # Beside writes, which may be in it or not.
            other = threading.Thread(target=lambda: [s3.put_object(Bucket="plain", Key=f"later{n}", Body=b"1") for n in range(20)])
            if number == 1:
                other.start()
            shown = command("backup", "--data", str(data), "--to", place)
            assert shown.startswith(f"the backup in {place} is complete: "), shown
            if number == 1:
                other.join()
            assert "ago" in command("status", "--data", str(data)).split("\nbackup")[1]
            assert command("verify-backup", "--from", place).startswith("every state from ")
            restored = tmp_path / f"restored{number}"
            command("restore", "--data", str(restored), "--from", place)
            with serve(restored) as elsewhere:
                after = {name: found for name, found in everything(client(elsewhere)).items() if "later" not in name[1]}
            assert after == {name: found for name, found in before.items() if "later" not in name[1]}
            shutil.rmtree(restored)
        shown = command("backup", "--data", str(data), "--to", place)
        assert " and 0 bodies with 0 bytes are new" in shown, "nothing has changed"
    # Without a gateway, too.
    assert "is complete" in command("backup", "--data", str(data), "--to", place, "--keep", "1h")
    assert command("scrub", "--data", str(data))


def test_the_task_in_the_documentation_is_executed(tmp_path):
    with open(os.path.join(ROOT, "docs", "tasks.md")) as file:
        section = file.read().split("## Back up the durable store\n")[1].split("\n## ")[0]
    blocks = re.findall(r"^```\n(.*?)^```$", section, re.M | re.S)
    names = {"NEW_DIR": str(tmp_path / "new"), "DIR": str(tmp_path / "data"), "/backup/store": str(tmp_path / "store")}
    lines = [re.sub("|".join(names), lambda found: names[found[0]], line) for block in blocks for line in block.splitlines()]
    assert len(lines) == 4 and all(line.startswith("plimsoll-gateway ") for line in lines), lines
    with serve(tmp_path / "data") as server:
        s3 = client(server)
        s3.create_bucket(Bucket="bucket")
        s3.put_object(Bucket="bucket", Key="large", Body=b"x" * 3_000_000)
        before = everything(s3)
        for line in lines[:2]:
            command(*line.split()[1:])
    command(*lines[2].split()[1:])
    with Server(command=(GATEWAY, *lines[3].split()[1:])) as server:
        assert everything(client(server)) == before


def test_bodies_of_tiers_in_directories_are_in_the_backup_of_any_catalog(tmp_path):
    with Server() as store:
        client(store).create_bucket(Bucket="cold")
        path = settings(tmp_path)
        with open(path) as file:
            text = file.read().replace(f"file://{tmp_path}/cold", f"s3://cold?endpoint={store.url}")
        with open(path, "w") as file:
            file.write(text)
        with run(path) as server:
            s3 = client(server)
            s3.create_bucket(Bucket="bucket")
            s3.put_object(Bucket="bucket", Key="key", Body=b"x" * 300_000)
            shown = command("backup", path, "--to", str(tmp_path / "backup"))
            assert "1 bodies with " in shown and "not in it  bodies in tier cold" in shown, shown
        for name in ("catalog", "hot"):
            shutil.rmtree(tmp_path / name)
        command("restore", path, "--from", str(tmp_path / "backup"))
        # The tier that was not lost has seen a later position.
        command("reconcile", path)
        with run(path) as server:
            assert client(server).get_object(Bucket="bucket", Key="key")["Body"].read() == b"x" * 300_000


@pytest.mark.skipif(not programs(), reason="PostgreSQL is not installed")
def test_a_catalog_in_a_database_is_backed_up_with_its_bodies(tmp_path):
    with Postgres() as database:
        path = shared(tmp_path, database)
        with run(path) as server:
            s3 = client(server)
            s3.create_bucket(Bucket="bucket")
            s3.put_object(Bucket="bucket", Key="key", Body=b"x" * 300_000)
            shown = command("backup", path, "--to", str(tmp_path / "backup"))
            assert "1 bodies with " in shown, shown
        shutil.rmtree(tmp_path / "hot")
        elsewhere = settings(tmp_path)
        command("restore", elsewhere, "--from", str(tmp_path / "backup"))
        command("reconcile", elsewhere)
        with run(elsewhere) as server:
            assert client(server).get_object(Bucket="bucket", Key="key")["Body"].read() == b"x" * 300_000


def test_wrong_places_are_refused_and_stay_as_they_are(tmp_path):
    with serve(tmp_path / "data") as server:
        client(server).create_bucket(Bucket="bucket")
        (tmp_path / "full").mkdir()
        (tmp_path / "full" / "letter").write_text("dear")
        data = str(tmp_path / "data")
        error = command("backup", "--data", data, "--to", str(tmp_path / "full"), code=2)
        assert "is not empty, and is not a backup" in error and os.listdir(tmp_path / "full") == ["letter"]
        assert "directory of the catalog" in command("backup", "--data", data, "--to", f"{data}/catalog/x", code=2)
        assert "place of tier blobs" in command("backup", "--data", data, "--to", f"{data}/blobs/x", code=2)
        assert not (tmp_path / "data" / "blobs" / "x").exists()
        assert "--keep" in command("backup", "--data", data, "--to", str(tmp_path / "b"), "--keep", "soon", code=2)
        assert not (tmp_path / "b").exists(), "a refused command has changed something"
        # Relative to the directory of the command, and not to that of the gateway.
        command("backup", "--data", data, "--to", "here", cwd=tmp_path)
        assert (tmp_path / "here" / "plimsoll-backup.json").exists()
    with serve(tmp_path / "other") as server:
        error = command("backup", "--data", str(tmp_path / "other"), "--to", str(tmp_path / "here"), code=3)
        assert "the backup of another catalog" in error, error
        assert "none recorded" in command("status", "--data", str(tmp_path / "other"))


def test_a_copy_in_a_wrong_place_starts_no_store(tmp_path):
    """Regression test: a copy of a catalog in the place of DIR started an empty store."""
    with serve(tmp_path / "data") as server:
        client(server).create_bucket(Bucket="bucket")
        command("backup", "--data", str(tmp_path / "data"), "--to", str(tmp_path / "backup"))
    shutil.copytree(tmp_path / "data" / "catalog", tmp_path / "copy")
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "letter").write_text("dear")
    for directory, words in [("copy", ["catalog without its store", "/copy/catalog"]),
                             ("backup", ["is a backup", "restore", "--from"]),
                             ("letters", ["is not empty", "letter", "an empty or a new directory"])]:
        before = sorted(os.walk(tmp_path / directory))
        error = command("run", "--data", str(tmp_path / directory), "--listen", "127.0.0.1:0", "--access-key", "a",
                        "--secret-key", "secretsecret", code=2)
        assert all(word in error for word in words), error
        assert sorted(os.walk(tmp_path / directory)) == before


def at(offset, *words):
    """Executes a command at another time."""
    return subprocess.run(["env", f"LD_PRELOAD={FAKE_TIME[0]}", f"FAKETIME={offset}", GATEWAY, *words], capture_output=True,
                          text=True, env=environment())


def contents(directory):
    """Returns the files of a directory with their bytes."""
    paths = (os.path.join(root, name) for root, _, names in os.walk(directory) for name in names)
    return {path: open(path, "rb").read() for path in paths}


def bodies_of(place):
    return sorted(name for _, _, names in os.walk(os.path.join(place, "blobs")) for name in names)


@pytest.mark.skipif(not FAKE_TIME, reason="faketime is not installed")
def test_pruning_keeps_the_bodies_of_every_state_of_the_window(tmp_path):
    """Regression test: a body that the store had deleted was deleted from the backup within a day, whatever `--keep` said."""
    path, place, start = settings(tmp_path), str(tmp_path / "backup"), time.time()

    def backed_up(day, said):
        done = at(f"+{day}d", "backup", path, "--to", place, "--keep", "7d")
        assert done.returncode == 0 and said in done.stdout, done

    def restored(day, key):
        elsewhere = tmp_path / f"elsewhere{day}"
        elsewhere.mkdir()
        moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(start + day * 86_400 + 3600))
        done = at("+70d", "restore", settings(elsewhere), "--from", place, "--at", moment)
        assert done.returncode == 0, done
        with run(settings(elsewhere), "--accept-clock") as server:
            keys = [found["Key"] for found in client(server).list_objects_v2(Bucket="bucket")["Contents"]]
            assert keys == [key]
            assert client(server).get_object(Bucket="bucket", Key=key)["Body"].read() == key.encode() * 100_000
        shutil.rmtree(elsewhere)

    with run(path) as server:
        client(server).create_bucket(Bucket="bucket")
    for number, day in enumerate((0, 3, 9, 11)):
        with run(path, "--accept-clock") as server:
            s3 = client(server)
            s3.put_object(Bucket="bucket", Key=f"key{number}", Body=f"key{number}".encode() * 100_000)
            if number:
                s3.delete_object(Bucket="bucket", Key=f"key{number - 1}")
            wait(lambda: len(files(tmp_path, "hot")) == 1, "the deleted body stays")
            # The row of the body is deleted after the body, and is in the next state until then.
            wait(lambda: metric(server, "deletion_overdue_seconds") == 0, "its row stays")
        backed_up(day, "objects that states of the last 7d do not need")
        if day < 11:
            restored(0, "key0")
    # At the beginning of the last seven days, the state of the third day was the newest one.
    assert len(bodies_of(place)) == 3
    for number, day in ((1, 3), (2, 9), (3, 11)):
        restored(day, f"key{number}")
    assert "every state from " in command("verify-backup", "--from", place)
    # A clock that is wrong by months.
    before = contents(place)
    backed_up(60, "deleted    nothing: by the clock of this machine, all states before this one are older than 7d")
    assert before.items() <= contents(place).items()
    backed_up(61, "objects that states of the last 7d do not need")
    assert len(bodies_of(place)) == 1
    restored(61, "key3")


@pytest.mark.skipif(not FAKE_TIME or not programs(), reason="PostgreSQL or faketime is not installed")
def test_a_clock_that_differs_from_the_database_deletes_no_backup(tmp_path):
    place = str(tmp_path / "backup")
    with Postgres() as database:
        path = shared(tmp_path, database)
        with run(path) as server:
            client(server).create_bucket(Bucket="bucket")
        for offset, said in (("+0", " 0 objects that states"), ("+40d", "nothing: the clock of this machine is in doubt")):
            done = at(offset, "backup", path, "--to", place, "--keep", "7d")
            assert done.returncode == 0 and "is complete" in done.stdout and f"deleted    {said.strip()}" in done.stdout, done
