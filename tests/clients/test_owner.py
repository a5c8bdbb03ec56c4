"""Tiers and their catalog: a lost, a foreign and an older catalog, `recover` and `reconcile`."""
import json
import os
import shutil
import subprocess

import pytest

from postgres import Postgres, programs
from support import ACCESS, GATEWAY, SECRET
from test_postgres import FAKE_TIME, metric, shared
from test_tiers import BLOB, client, files, rule, run, settings, wait, wait_for_visits

pytestmark = pytest.mark.skipif(not os.path.exists(GATEWAY), reason="plimsoll-gateway is not built")

PACK = '[pack]\ntier = "hot"\nmin_age = "0s"\nmax_wait = "0s"\nmax_body = "2 KiB"\n'


def command(*arguments):
    environment = dict(os.environ, PLIMSOLL_ACCESS_KEY=ACCESS, PLIMSOLL_SECRET_KEY=SECRET)
    done = subprocess.run([GATEWAY, *arguments], capture_output=True, text=True, env=environment)
    return done.returncode, done.stdout, done.stderr


def refused(path, *problems):
    """The gateway does not start, and says these words."""
    code, _, error = command("run", path, "--listen", "127.0.0.1:0")
    assert code == 3 and all(problem in error for problem in problems), error


def everything(s3, buckets):
    """Returns all objects and versions with their bodies and properties."""
    found = {}
    for bucket in buckets:
        for version in s3.list_object_versions(Bucket=bucket).get("Versions", []):
            name = {"Bucket": bucket, "Key": version["Key"], "VersionId": version["VersionId"]}
            got = s3.get_object(**name)
            tags = s3.get_object_tagging(**name)["TagSet"]
            found[bucket, version["Key"], version["ETag"]] = (
                got["Body"].read(), got["ContentType"], got["Metadata"], got["ETag"], tags, version["IsLatest"],
                version["LastModified"])
    return found


def fill(s3):
    """Writes objects of all kinds that are blobs."""
    s3.create_bucket(Bucket="plain")
    s3.create_bucket(Bucket="versions")
    s3.put_bucket_versioning(Bucket="versions", VersioningConfiguration={"Status": "Enabled"})
    for number in range(8):
        s3.put_object(Bucket="plain", Key=f"moves/{number}", Body=os.urandom(BLOB), ContentType="text/x",
                      Metadata={"number": str(number)}, Tagging="a=1")
    for number in range(3):
        s3.put_object(Bucket="versions", Key="key", Body=os.urandom(BLOB + number))
    s3.put_object(Bucket="plain", Key="replaced", Body=os.urandom(BLOB))
    s3.put_object(Bucket="plain", Key="replaced", Body=os.urandom(BLOB))
    upload = s3.create_multipart_upload(Bucket="plain", Key="parts", Metadata={"m": "1"})["UploadId"]
    parts = []
    for number, size in enumerate([5 << 20, 6 << 20, 100], 1):
        part = s3.upload_part(Bucket="plain", Key="parts", UploadId=upload, PartNumber=number, Body=os.urandom(size))
        parts.append({"PartNumber": number, "ETag": part["ETag"]})
    s3.complete_multipart_upload(Bucket="plain", Key="parts", UploadId=upload, MultipartUpload={"Parts": parts})
    for number in range(40):
        s3.put_object(Bucket="plain", Key=f"small/{number}", Body=os.urandom(500), Metadata={"small": "1"})


BUCKETS = ["plain", "versions"]


def test_a_lost_catalog_is_recovered_from_the_tiers(tmp_path):
    path = settings(tmp_path, retain="1h", moves=rule(when="prefix = 'moves/'") + PACK)
    with run(path) as server:
        s3 = client(server)
        fill(s3)
        wait(lambda: len(files(tmp_path, "cold")) == 8, "the blobs are moved")
        wait_for_visits(server)
        before = everything(s3, BUCKETS)
    shutil.rmtree(tmp_path / "catalog")
    refused(path, "tier ", "belongs to another catalog", "recover", "--from-tiers")
    code, shown, error = command("recover", path, "--from-tiers", "--dry-run")
    assert (code, shown.split("\n")[0].split(" ")[0]) == (0, "51"), error
    code, shown, error = command("recover", path, "--from-tiers", "--json")
    assert code == 0, error
    result = json.loads(shown)
    assert (result["objects"], result["buckets"], result["incomplete"]) == (len(before) + 1, 2, []), result
    with run(path) as server:
        after = everything(client(server), BUCKETS)
        assert after.keys() == before.keys()
        for name, properties in before.items():
            assert after[name] == properties, name
        wait_for_visits(server)
    code, shown, error = command("sweep", path, "--json")
    assert code == 0 and all(tier["orphans"] == 0 for tier in json.loads(shown).values()), (shown, error)
    code, _, error = command("recover", path, "--from-tiers")
    assert code == 2 and "the catalog has 2 buckets" in error and "reconcile" in error, error


def test_a_second_catalog_is_refused_and_sweeps_nothing(tmp_path):
    first, other = tmp_path / "first", tmp_path / "other"
    first.mkdir(), other.mkdir()
    with run(settings(first)) as server:
        s3 = client(server)
        s3.create_bucket(Bucket="bucket")
        s3.put_object(Bucket="bucket", Key="key", Body=b"x" * BLOB)
    path = settings(other)
    (other / "gateway.toml").write_text((other / "gateway.toml").read_text().replace(f"{other}/hot", f"{first}/hot"))
    refused(path, "tier hot belongs to another catalog", "use another bucket or prefix")
    code, _, error = command("sweep", path, "--delete", "--max-share", "100")
    assert code == 2 and "there is no catalog" in error, "the refused start has created one"
    assert len(files(first, "hot")) == 1 and not os.path.exists(other / "cold" / "plimsoll-owner.json")
    with run(settings(first)) as server:
        assert client(server).get_object(Bucket="bucket", Key="key")["Body"].read() == b"x" * BLOB


def test_an_older_catalog_is_refused_until_it_is_reconciled(tmp_path):
    moves = rule(when="prefix = 'moves/'") + PACK
    path = settings(tmp_path, retain="1h")
    with run(path) as server:
        s3 = client(server)
        s3.create_bucket(Bucket="plain")
        for number in range(4):
            s3.put_object(Bucket="plain", Key=f"moves/old-{number}", Body=os.urandom(BLOB))
        s3.put_object(Bucket="plain", Key="small/old", Body=b"old")
        s3.put_object(Bucket="plain", Key="deleted-before", Body=os.urandom(BLOB))
        s3.delete_object(Bucket="plain", Key="deleted-before")
        old = everything(s3, ["plain"])
    shutil.copytree(tmp_path / "catalog", tmp_path / "backup")
    with run(settings(tmp_path, retain="1h", moves=moves)) as server:
        s3 = client(server)
        fill(s3)
        s3.put_object(Bucket="plain", Key="moves/old-0", Body=os.urandom(BLOB))
        s3.delete_object(Bucket="plain", Key="moves/old-1")
        wait(lambda: len(files(tmp_path, "cold")) >= 8 + 3, "the blobs are moved")
        wait_for_visits(server)
        new = everything(s3, BUCKETS)
    shutil.rmtree(tmp_path / "catalog")
    shutil.copytree(tmp_path / "backup", tmp_path / "catalog")
    refused(path, "this catalog is older than tier", "reconcile", "--restored")
    code, _, error = command("sweep", path, "--delete")
    assert code == 3 and "older" in error, error
    code, _, error = command("scrub", path)
    assert code == 0 and "older" in error, error
    kept = {tier: files(tmp_path, tier) for tier in ("hot", "cold")}
    with run(settings(tmp_path, retain="1h", moves=moves), "--restored") as server:
        assert everything(client(server), ["plain"]) == old
    assert {tier: files(tmp_path, tier) for tier in ("hot", "cold")} == kept
    code, shown, error = command("reconcile", path)
    assert code == 0, error
    with run(path) as server:
        after = everything(client(server), BUCKETS)
    missing = [name for name, properties in new.items() if after.get(name) != properties]
    # The catalog has had no tier for it: it was too small for a blob, and was not packed.
    assert not missing, missing
    code, shown, error = command("reconcile", path, "--json")
    assert (code, json.loads(shown)["objects"]) == (0, 0), error


@pytest.mark.skipif(not programs(), reason="PostgreSQL is not installed")
def test_a_database_that_went_back_stops_moves_and_deletions(tmp_path):
    """A fail-over to a replica that lacks the last transactions, while a gateway runs."""
    with Postgres() as database:
        account = ["-h", database.directory, "-U", "plimsoll"]
        path = shared(tmp_path, database)
        with run(path) as server:
            s3 = client(server)
            s3.create_bucket(Bucket="bucket")
            s3.put_object(Bucket="bucket", Key="old", Body=b"o" * BLOB)
            database.call("pg_dump", *account, "--clean", "-f", "dump.sql", "postgres")
            s3.put_object(Bucket="bucket", Key="new", Body=b"n" * BLOB)
            position = lambda: json.loads((tmp_path / "hot" / "plimsoll-owner.json").read_text())["position"]
            before = position()
            wait(lambda: position() > before + 1, "the position is not recorded")
            database.call("psql", *account, "-q", "-1", "-d", "postgres", "-f", "dump.sql")
            wait(lambda: metric(server, "owns_tiers") == 0, "the loss is not noticed")
            assert s3.get_object(Bucket="bucket", Key="old")["Body"].read() == b"o" * BLOB
            code, shown, error = command("reconcile", path)
            assert (code, shown.split(" ")[0]) == (0, "1"), (shown, error)
            wait(lambda: metric(server, "owns_tiers") == 1, "the gateway does not take over again")
            for key in ("old", "new"):
                assert s3.get_object(Bucket="bucket", Key=key)["Body"].read() == key[:1].encode() * BLOB


@pytest.mark.skipif(not FAKE_TIME, reason="faketime is not installed")
@pytest.mark.parametrize("offset", ["+40d", "-1d"])
def test_a_wrong_clock_at_the_start_expires_nothing(tmp_path, offset):
    """A catalog in a directory: no clock contradicts the machine, but the catalog was used at another time."""
    path = settings(tmp_path, retain="1h")
    rule = {"ID": "old", "Status": "Enabled", "Filter": {}, "Expiration": {"Days": 30}}
    with run(path) as server:
        s3 = client(server)
        s3.create_bucket(Bucket="bucket")
        for key in ("kept", "deleted"):
            s3.put_object(Bucket="bucket", Key=key, Body=b"x" * BLOB)
        s3.put_bucket_lifecycle_configuration(Bucket="bucket", LifecycleConfiguration={"Rules": [rule]})
        s3.delete_object(Bucket="bucket", Key="deleted")
        # The first record of the position has the time.
        wait(lambda: json.loads((tmp_path / "hot" / "plimsoll-owner.json").read_text())["position"] > 0, "no record")
    before = files(tmp_path, "hot")
    log = tmp_path / "log"
    environment = dict(os.environ, PLIMSOLL_ACCESS_KEY=ACCESS, PLIMSOLL_SECRET_KEY=SECRET)
    with open(log, "w") as file:
        command = ["env", f"LD_PRELOAD={FAKE_TIME[0]}", f"FAKETIME={offset}", GATEWAY, "run", path, "--listen", "127.0.0.1:0", "--move-every", "50ms"]
        wrong = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=file)
        wait(lambda: "expires and deletes nothing" in log.read_text(), "the clock is trusted")
        wrong.terminate()
        wrong.wait()
    assert files(tmp_path, "hot") == before
    with run(path) as server:
        s3 = client(server)
        assert [o["Key"] for o in s3.list_objects_v2(Bucket="bucket")["Contents"]] == ["kept"]
        s3.put_object(Bucket="bucket", Key="again", Body=b"x" * BLOB)
