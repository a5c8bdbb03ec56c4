"""The run directories and stores of every release open with the present programs: docs/promises.md."""
import hashlib
import json
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from support import GATEWAY, PLIMSOLL, ROOT, Server, environment
from test_tiers import client, wait_for_visits

RELEASES = sorted(path for path in Path(ROOT, "tests/data/releases").iterdir() if path.is_dir() and path.name[0].isdigit())
pytestmark = pytest.mark.skipif(not os.path.exists(GATEWAY), reason="plimsoll-gateway is not built")


def settings(directory, rules=""):
    """Writes the settings of the store of a fixture in a directory."""
    path = directory / "gateway.toml"
    path.write_text(f'[catalog]\nurl = "dir:{directory}/catalog"\n[tier.hot]\nurl = "file://{directory}/hot"\n'
                    f'[tier.cold]\nurl = "file://{directory}/cold"\n[write]\ntier = "hot"\ninline = "4 KiB"\n{rules}')
    return str(path)


def listed(s3):
    """Returns all versions of all objects, with everything that clients see."""
    found = {}
    for bucket in sorted(each["Name"] for each in s3.list_buckets()["Buckets"]):
        versions = s3.list_object_versions(Bucket=bucket)
        for each in versions.get("Versions", []):
            got = s3.get_object(Bucket=bucket, Key=each["Key"], VersionId=each["VersionId"], ChecksumMode="ENABLED")
            tags = s3.get_object_tagging(Bucket=bucket, Key=each["Key"], VersionId=each["VersionId"])["TagSet"]
            found[f"{bucket}/{each['Key']}?{each['VersionId']}"] = {
                "sha256": hashlib.sha256(got["Body"].read()).hexdigest(), "etag": got["ETag"], "size": got["ContentLength"],
                "modified": got["LastModified"].isoformat(), "metadata": got["Metadata"], "type": got["ContentType"],
                "tags": tags, "checksum": got.get("ChecksumSHA256"), "latest": each["IsLatest"],
            }
        for each in versions.get("DeleteMarkers", []):
            found[f"{bucket}/{each['Key']}?{each['VersionId']}"] = {"marker": True, "latest": each["IsLatest"]}
    return found


@pytest.fixture(params=RELEASES, ids=lambda path: path.name)
def release(request):
    return request.param


@pytest.fixture
def store(release, tmp_path):
    """Unpacks the store of a release. Returns its directory."""
    with tarfile.open(release / "store.tar.gz") as archive:
        # `extractall` takes filters from Python 3.11.4 on; Debian 12 has 3.11.2.
        archive.extraction_filter = lambda member, path: member
        archive.extractall(tmp_path)
    return tmp_path


def command(*words, code=0):
    done = subprocess.run([GATEWAY, *words], capture_output=True, text=True, env=environment())
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def serve(path, *more):
    # The fixture is older than a day, so the time needs a confirmation.
    return Server(path, "--accept-clock", "--move-every", "100ms", "--reserve", "0", "--metrics-listen", "127.0.0.1:0", *more,
                  command=(GATEWAY, "run"))


def expected(release):
    return json.loads((release / "objects.json").read_text())


def test_a_store_of_a_release_has_all_its_objects(release, store):
    path = settings(store)
    command("status", path)
    with serve(path) as server:
        assert listed(client(server)) == expected(release)
    command("scrub", path)


def test_objects_of_a_release_move_and_are_served_from_there(release, store):
    rule = '[[move]]\nfrom = "hot"\nto = "cold"\nwhen = "age >= 0s"\nkeep_source = "0s"\n[retain]\ndeleted = "0s"\n'
    path = settings(store, rule)
    with serve(path) as server:
        wait_for_visits(server)
        wait_for_visits(server)
        assert listed(client(server)) == expected(release)
    assert "plain/stays/1 is in tier cold" in command("where", path, "--object", "plain/stays/1")
    command("scrub", path)


def test_a_catalog_of_a_release_is_reconciled_and_recovered_from_its_tiers(release, store):
    path = settings(store)
    command("reconcile", path)
    with serve(path) as server:
        assert listed(client(server)) == expected(release)
    shutil.move(store / "catalog", store / "before")
    command("recover", path, "--from-tiers")
    with serve(path) as server:
        found = listed(client(server))
    # Small objects that are not in a pack file are in the catalog only.
    in_tiers = {name: each for name, each in expected(release).items() if each.get("size", 0) > 4096}
    assert in_tiers and in_tiers.items() <= found.items()


def test_a_newer_format_is_refused_and_the_backup_before_the_upgrade_opens(release, store):
    """The way back to an older version: docs/operations/upgrade.md."""
    path = settings(store)
    command("backup", path, "--to", str(store / "backup"))
    (store / "catalog/FORMAT").write_text("2\n")
    state = {file: file.read_bytes() for file in (store / "catalog").rglob("*") if file.is_file()}
    assert "format 2" in command("run", path, "--listen", "127.0.0.1:0", "--access-key", "a", "--secret-key", "b", code=3)
    assert state == {file: file.read_bytes() for file in (store / "catalog").rglob("*") if file.is_file()}
    shutil.rmtree(store / "catalog")
    command("restore", path, "--from", str(store / "backup"))
    command("reconcile", path)
    with serve(path) as server:
        assert listed(client(server)) == expected(release)


def plimsoll(*words):
    done = subprocess.run([PLIMSOLL, *map(str, words)], capture_output=True, text=True, env=environment())
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_run_of_a_release_has_the_same_figures(release, tmp_path):
    recorded, shown = json.loads((release / "figures.json").read_text()), json.loads(plimsoll("show", release / "run", "--json"))

    def known(old, new, at=""):
        """Fails if a recorded field is missing or differs; new fields are allowed."""
        if isinstance(old, dict):
            for key, value in old.items():
                assert key in new, f"{at}.{key}"
                known(value, new[key], f"{at}.{key}")
        elif isinstance(old, list):
            assert len(old) == len(new), at
            for position, pair in enumerate(zip(old, new)):
                known(*pair, f"{at}[{position}]")
        else:
            assert old == new, at

    known(recorded, shown)
    # The run is short: the answer may be that there is too little data.
    assert "mixed" in plimsoll("compare", release / "run", release / "run").splitlines()[0]
    plimsoll("report", release / "run", "--output", tmp_path / "report.html")
    assert len(plimsoll("export", "--format", "csv", release / "run").splitlines()) > 1
    plimsoll("run", release / "run", "--store", "embedded:", "--dry-run")
