#!/usr/bin/env python3
"""Makes the fixture of a release with its programs: `make.py VERSION`, once per version, before it is published.

    VERSION/run/               a run directory, without its report
    VERSION/figures.json       what `plimsoll show RUN --json` prints
    VERSION/store.tar.gz       a store: the catalog and two tiers, whose settings test_releases.py writes
    VERSION/objects.json       all objects and versions of the store

tests/clients/test_releases.py opens the fixtures of all releases with the present programs.
"""
import gzip
import io
import json
import os
import random
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "clients"))
from support import GATEWAY, PLIMSOLL, Server, environment  # noqa: E402
from test_releases import listed, settings  # noqa: E402
from test_tiers import client, wait_for_visits  # noqa: E402

# Some objects move, and small ones are packed at once.
RULES = """
[[move]]
from = "hot"
to = "cold"
when = 'prefix = "moved/"'
[pack]
tier = "cold"
max_body = "8 KiB"
min_age = "0s"
max_wait = "1s"
"""


def body(name, size):
    return random.Random(name).randbytes(size)


def fill(s3):
    """Writes objects of every kind."""
    s3.create_bucket(Bucket="plain")
    s3.create_bucket(Bucket="versions")
    s3.put_bucket_versioning(Bucket="versions", VersioningConfiguration={"Status": "Enabled"})
    s3.put_bucket_tagging(Bucket="plain", Tagging={"TagSet": [{"Key": "team", "Value": "storage"}]})
    for number in range(12):
        s3.put_object(Bucket="plain", Key=f"small/{number}", Body=body(number, 100 + number), Metadata={"number": str(number)})
    for name in ("moved/1", "moved/2", "stays/1"):
        s3.put_object(Bucket="plain", Key=name, Body=body(name, 20_000), ContentType="text/plain", ChecksumAlgorithm="SHA256",
                      Tagging="kind=blob")
    upload = s3.create_multipart_upload(Bucket="plain", Key="parts", Metadata={"parts": "2"})["UploadId"]
    parts = []
    for number, size in ((1, 5 << 20), (2, 1000)):
        part = s3.upload_part(Bucket="plain", Key="parts", UploadId=upload, PartNumber=number, Body=b"\0" * size)
        parts.append({"PartNumber": number, "ETag": part["ETag"]})
    s3.complete_multipart_upload(Bucket="plain", Key="parts", UploadId=upload, MultipartUpload={"Parts": parts})
    for number in range(3):
        s3.put_object(Bucket="versions", Key="v", Body=body(f"v{number}", 50))
    s3.delete_object(Bucket="versions", Key="gone")
    s3.put_object(Bucket="plain", Key="deleted", Body=b"kept")
    s3.delete_object(Bucket="plain", Key="deleted")


def store(folder, out):
    """Makes a store, and archives it."""
    path = settings(folder, RULES)
    with Server(path, "--move-every", "100ms", "--reserve", "0", "--metrics-listen", "127.0.0.1:0",
                command=(GATEWAY, "run")) as server:
        s3 = client(server)
        fill(s3)
        wait_for_visits(server)
        wait_for_visits(server)
        (out / "objects.json").write_text(json.dumps(listed(s3), indent=1, sort_keys=True) + "\n")
    where = subprocess.run([GATEWAY, "where", path, "--object", "plain/moved/1"], capture_output=True, text=True).stdout
    assert "cold" in where, where
    def anonymous(entry):
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        # The file that reserves space has no content.
        return None if entry.name.endswith("ballast") else entry

    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name in ("catalog", "hot", "cold"):
            archive.add(folder / name, arcname=name, filter=anonymous)
    (out / "store.tar.gz").write_bytes(gzip.compress(packed.getvalue(), 9, mtime=0))


def run(folder, out):
    """Makes a run, and keeps its figures."""
    (folder / "bin").mkdir()
    (folder / "bin/plimsoll").symlink_to(PLIMSOLL)
    subprocess.run(["plimsoll", "run", "mixed", "--store", "embedded:", "--size", "1KiB", "--rate", "200/s", "--duration", "8s",
                    "--warmup", "0s", "--objects", "50", "--out", "runs"], check=True, cwd=folder, stdout=subprocess.DEVNULL,
                   env={**environment(), "PATH": f"{folder}/bin:{os.environ['PATH']}"})
    made = next((folder / "runs").iterdir())
    (made / "report.html").unlink()
    shutil.copytree(made, out / "run")
    shown = subprocess.run([PLIMSOLL, "show", out / "run", "--json"], check=True, capture_output=True)
    (out / "figures.json").write_bytes(shown.stdout)


def main():
    out = HERE / sys.argv[1]
    out.mkdir()
    with tempfile.TemporaryDirectory() as folder:
        store(Path(folder), out)
        run(Path(folder), out)
    print(subprocess.run(["du", "-sh", out], capture_output=True, text=True).stdout)


if __name__ == "__main__":
    main()
