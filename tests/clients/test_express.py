"""boto3 and the AWS CLI with directory buckets on `plimsoll serve`: CreateSession, renewal, unordered listings."""
import hashlib
import os
import subprocess
import time

import boto3
import botocore.exceptions
import pytest
from botocore.config import Config

from support import ACCESS, PLIMSOLL, SECRET, Server, environment

MIB = 1 << 20
BUCKET = "clients--use1-az4--x-s3"


@pytest.fixture(scope="module")
def server():
    with Server("--session-life", "2s") as server:
        yield server


@pytest.fixture(scope="module")
def s3(server):
    client = boto3.client("s3", endpoint_url=server.url, aws_access_key_id=ACCESS, aws_secret_access_key=SECRET,
                          region_name="us-east-1", config=Config(retries={"total_max_attempts": 1}))
    # With a custom endpoint, boto3 needs a session even to create the bucket. AWS has a control endpoint for that.
    plimsoll(server, "create")
    return client


def plimsoll(server, command, *options):
    store = f"s3://{BUCKET}?endpoint={server.url}"
    return subprocess.run([PLIMSOLL, "bucket", command, store, *options], env=environment(), check=True, timeout=60,
                          capture_output=True, text=True).stdout


def test_boto_uses_sessions(s3):
    seen = []
    s3.meta.events.register("before-send.s3", lambda request, **_: seen.append(request.headers))
    data = os.urandom(MIB)
    s3.put_object(Bucket=BUCKET, Key="dir/one.bin", Body=data)
    answer = s3.get_object(Bucket=BUCKET, Key="dir/one.bin")
    assert answer["Body"].read() == data
    assert answer["ETag"].strip('"') != hashlib.md5(data).hexdigest(), "the entity tag of a directory bucket is not an MD5"
    objects = [h for h in seen if b"x-amz-s3session-token" in {k.lower().encode() for k in h}]
    assert len(objects) >= 2 and all("s3express" in str(h["Authorization"]) for h in objects)


def test_boto_renews_its_session(s3):
    # Writes for longer than the lifetime of a session (2 s). The client creates new sessions itself.
    end = time.monotonic() + 5
    while time.monotonic() < end:
        s3.put_object(Bucket=BUCKET, Key="dir/again", Body=b"x")


def test_boto_reads_unordered_listings_page_by_page(s3):
    keys = {f"many/{i:03}" for i in range(37)}
    for key in keys:
        s3.put_object(Bucket=BUCKET, Key=key, Body=b"x")
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix="many/", PaginationConfig={"PageSize": 10})
    found = [o["Key"] for page in pages for o in page.get("Contents", [])]
    assert len(found) == 37 and set(found) == keys and found != sorted(found)
    for wrong in ({"Prefix": "man"}, {"StartAfter": "many/001"}, {"Delimiter": "-"}):
        with pytest.raises(botocore.exceptions.ClientError):
            s3.list_objects_v2(Bucket=BUCKET, **wrong)
    with pytest.raises(botocore.exceptions.ClientError):
        s3.list_objects(Bucket=BUCKET)


def test_part_numbers_must_be_consecutive_and_uploads_appear_in_listings(s3):
    upload = s3.create_multipart_upload(Bucket=BUCKET, Key="unfinished/large")["UploadId"]
    shown = s3.list_objects_v2(Bucket=BUCKET, Delimiter="/")["CommonPrefixes"]
    assert {"Prefix": "unfinished/"} in shown
    parts = {n: s3.upload_part(Bucket=BUCKET, Key="unfinished/large", UploadId=upload, PartNumber=n, Body=bytes(5 * MIB))["ETag"]
             for n in (1, 2, 3)}
    complete = lambda numbers: s3.complete_multipart_upload(
        Bucket=BUCKET, Key="unfinished/large", UploadId=upload,
        MultipartUpload={"Parts": [{"PartNumber": n, "ETag": parts[n]} for n in numbers]})
    with pytest.raises(botocore.exceptions.ClientError):
        complete((1, 3))
    complete((1, 2, 3))
    assert s3.head_object(Bucket=BUCKET, Key="unfinished/large")["ContentLength"] == 15 * MIB


def test_boto_copies_and_deletes(s3):
    s3.put_object(Bucket=BUCKET, Key="from", Body=b"content")
    s3.copy_object(Bucket=BUCKET, Key="to", CopySource=f"{BUCKET}/from")
    assert s3.get_object(Bucket=BUCKET, Key="to")["Body"].read() == b"content"
    s3.delete_objects(Bucket=BUCKET, Delete={"Objects": [{"Key": "from"}, {"Key": "to"}]})
    with pytest.raises(s3.exceptions.NoSuchKey):
        s3.get_object(Bucket=BUCKET, Key="from")


def test_boto_creates_a_read_only_session(server, s3):
    session = s3.create_session(Bucket=BUCKET, SessionMode="ReadOnly")["Credentials"]
    assert session["SessionToken"] and session["Expiration"]


def aws(server, *arguments):
    return subprocess.run(["aws", "--endpoint-url", server.url, "s3", *arguments], env=environment(), check=True,
                          capture_output=True, text=True, timeout=120).stdout


def test_aws_cli_copies_in_both_directions(server, s3, tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "sub").mkdir(parents=True)
    contents = {"a.bin": os.urandom(100_000), "sub/b.bin": os.urandom(20 * MIB), "sub/empty": b""}
    for name, data in contents.items():
        (source / name).write_bytes(data)
    aws(server, "cp", "--recursive", str(source), f"s3://{BUCKET}/sync/", "--only-show-errors")
    assert len(aws(server, "ls", "--recursive", f"s3://{BUCKET}/sync/").splitlines()) == 3
    aws(server, "cp", "--recursive", f"s3://{BUCKET}/sync/", str(target), "--only-show-errors")
    for name, data in contents.items():
        assert (target / name).read_bytes() == data
    # `aws s3 sync` refuses directory buckets, because it compares listings in key order.
    with pytest.raises(subprocess.CalledProcessError) as refused:
        aws(server, "sync", str(source), f"s3://{BUCKET}/sync/")
    assert "Cannot use sync command with a directory bucket" in refused.value.stderr
    aws(server, "rm", "--recursive", f"s3://{BUCKET}/sync/", "--only-show-errors")
    assert not s3.list_objects_v2(Bucket=BUCKET, Prefix="sync/").get("Contents")


def test_force_empties_and_deletes_the_bucket(server, s3):
    s3.create_multipart_upload(Bucket=BUCKET, Key="left/behind")
    s3.put_object(Bucket=BUCKET, Key="left/object", Body=b"1")
    refused = subprocess.run([PLIMSOLL, "bucket", "delete", f"s3://{BUCKET}?endpoint={server.url}"], env=environment(),
                             capture_output=True, text=True, timeout=60)
    assert refused.returncode == 2 and "nothing was deleted" in refused.stderr
    assert "deleted" in plimsoll(server, "delete", "--force")
    with pytest.raises(botocore.exceptions.ClientError):
        s3.head_bucket(Bucket=BUCKET)
