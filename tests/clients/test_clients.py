"""Real clients against `plimsoll serve`: uploads, listings, ranges, multipart, copies, deletions, presigned URLs."""
import hashlib
import os
import shutil
import subprocess
import urllib.error
import urllib.request

import boto3
import botocore.exceptions
import pytest
from boto3.s3.transfer import TransferConfig
from botocore.config import Config

from support import ACCESS, SECRET, Server, environment

MIB = 1 << 20


@pytest.fixture(scope="module")
def server():
    with Server() as server:
        yield server


@pytest.fixture(scope="module")
def s3(server):
    client = boto3.client("s3", endpoint_url=server.url, aws_access_key_id=ACCESS, aws_secret_access_key=SECRET,
                          region_name="us-east-1",
                          config=Config(retries={"total_max_attempts": 1}, signature_version="s3v4"))
    client.create_bucket(Bucket="boto")
    return client


def sha(data):
    return hashlib.sha256(data).hexdigest()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    contents = {"empty": b"", "small.txt": b"hello", "one.bin": os.urandom(MIB), "large.bin": os.urandom(23 * MIB + 7),
                "näme with + & %.bin": os.urandom(1000)}
    for name, data in contents.items():
        (folder / name).write_bytes(data)
    return folder, contents


def test_boto_round_trip(s3, files):
    for name, data in files[1].items():
        s3.put_object(Bucket="boto", Key=f"dir/{name}", Body=data, Metadata={"who": "me"}, ContentType="text/plain")
        answer = s3.get_object(Bucket="boto", Key=f"dir/{name}", ChecksumMode="ENABLED")
        assert answer["Body"].read() == data
        assert answer["Metadata"] == {"who": "me"} and answer["ContentType"] == "text/plain"
        assert answer["ETag"] == f'"{hashlib.md5(data).hexdigest()}"'
        assert s3.head_object(Bucket="boto", Key=f"dir/{name}")["ContentLength"] == len(data)


def test_boto_range_list_copy_delete(s3, files):
    data = files[1]["one.bin"]
    s3.put_object(Bucket="boto", Key="r", Body=data)
    assert s3.get_object(Bucket="boto", Key="r", Range="bytes=100-199")["Body"].read() == data[100:200]
    assert s3.get_object(Bucket="boto", Key="r", Range="bytes=-5")["Body"].read() == data[-5:]
    for i in range(25):
        s3.put_object(Bucket="boto", Key=f"many/{i:03}", Body=b"x")
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket="boto", Prefix="many/", PaginationConfig={"PageSize": 10})
    assert [o["Key"] for p in pages for o in p["Contents"]] == [f"many/{i:03}" for i in range(25)]
    prefixes = s3.list_objects_v2(Bucket="boto", Delimiter="/")["CommonPrefixes"]
    assert {"Prefix": "many/"} in prefixes
    s3.copy_object(Bucket="boto", Key="copy", CopySource={"Bucket": "boto", "Key": "r"})
    assert s3.get_object(Bucket="boto", Key="copy")["Body"].read() == data
    gone = s3.delete_objects(Bucket="boto", Delete={"Objects": [{"Key": f"many/{i:03}"} for i in range(25)]})
    assert len(gone["Deleted"]) == 25
    assert "Contents" not in s3.list_objects_v2(Bucket="boto", Prefix="many/")
    assert [b["Name"] for b in s3.list_buckets()["Buckets"]].count("boto") == 1


def test_boto_multipart(s3, files):
    folder, contents = files
    config = TransferConfig(multipart_threshold=5 * MIB, multipart_chunksize=5 * MIB, max_concurrency=4)
    s3.upload_file(str(folder / "large.bin"), "boto", "large", Config=config)
    s3.download_file("boto", "large", str(folder / "back"), Config=config)
    assert sha((folder / "back").read_bytes()) == sha(contents["large.bin"])
    os.remove(folder / "back")
    assert s3.head_object(Bucket="boto", Key="large")["ETag"].endswith('-5"')
    s3.copy({"Bucket": "boto", "Key": "large"}, "boto", "large-copy", Config=config)
    assert sha(s3.get_object(Bucket="boto", Key="large-copy")["Body"].read()) == sha(contents["large.bin"])
    upload = s3.create_multipart_upload(Bucket="boto", Key="never")["UploadId"]
    s3.upload_part(Bucket="boto", Key="never", UploadId=upload, PartNumber=1, Body=b"x")
    s3.abort_multipart_upload(Bucket="boto", Key="never", UploadId=upload)
    assert "Uploads" not in s3.list_multipart_uploads(Bucket="boto")


@pytest.mark.parametrize("algorithm", ["CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256"])
def test_boto_verifies_checksums(s3, algorithm):
    try:
        answer = s3.put_object(Bucket="boto", Key="sum", Body=b"content", ChecksumAlgorithm=algorithm)
    except botocore.exceptions.MissingDependencyException:
        pytest.skip("awscrt is not installed")
    assert answer[f"Checksum{algorithm}"]
    assert s3.get_object(Bucket="boto", Key="sum", ChecksumMode="ENABLED")["Body"].read() == b"content"


def test_conditional_requests_from_boto(s3):
    etag = s3.put_object(Bucket="boto", Key="cond", Body=b"1")["ETag"]
    for arguments in ({"IfNoneMatch": "*"}, {"IfMatch": '"other"'}):
        with pytest.raises(botocore.exceptions.ClientError, match="PreconditionFailed"):
            s3.put_object(Bucket="boto", Key="cond", Body=b"2", **arguments)
    with pytest.raises(botocore.exceptions.ClientError, match="304"):
        s3.get_object(Bucket="boto", Key="cond", IfNoneMatch=etag)
    s3.put_object(Bucket="boto", Key="cond", Body=b"2", IfMatch=etag)


def test_presigned_urls_from_boto(s3):
    url = s3.generate_presigned_url("put_object", Params={"Bucket": "boto", "Key": "pre signed/ü"}, ExpiresIn=60)
    urllib.request.urlopen(urllib.request.Request(url, data=b"by url", method="PUT")).read()
    url = s3.generate_presigned_url("get_object", Params={"Bucket": "boto", "Key": "pre signed/ü"}, ExpiresIn=60)
    assert urllib.request.urlopen(url).read() == b"by url"
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(url.replace("X-Amz-Signature=", "X-Amz-Signature=0"))


def test_a_wrong_secret_is_refused(server):
    client = boto3.client("s3", endpoint_url=server.url, aws_access_key_id=ACCESS, aws_secret_access_key="wrong",
                          region_name="us-east-1")
    with pytest.raises(botocore.exceptions.ClientError, match="SignatureDoesNotMatch"):
        client.list_buckets()


def run(*command, env=None, **more):
    done = subprocess.run(command, env=env or environment(), capture_output=True, text=True, timeout=120, **more)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def same(folder, contents):
    for name, data in contents.items():
        assert sha((folder / name).read_bytes()) == sha(data), name


def command_line_client(folder, contents, tmp_path, copy_to, copy_from, remove, list_all):
    copy_to(folder)
    for name in contents:
        assert name in list_all(), name
    back = tmp_path / "back"
    back.mkdir()
    copy_from(back)
    same(back, contents)
    remove()
    assert not list_all().strip()


def test_aws_cli(server, files, tmp_path):
    aws = ["aws", "--endpoint-url", server.url]
    run(*aws, "s3", "mb", "s3://awscli")
    command_line_client(
        *files, tmp_path,
        lambda folder: run(*aws, "s3", "sync", str(folder), "s3://awscli/d/"),
        lambda folder: run(*aws, "s3", "sync", "s3://awscli/d/", str(folder)),
        lambda: run(*aws, "s3", "rm", "--recursive", "s3://awscli/d/"),
        lambda: run(*aws, "s3", "ls", "--recursive", "s3://awscli"))
    config = tmp_path / "config"
    config.write_text("[default]\ns3 =\n  signature_version = s3v4\n")
    url = run(*aws, "s3", "presign", "s3://awscli/none", env=environment(AWS_CONFIG_FILE=str(config))).strip()
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(url)
    run(*aws, "s3", "rb", "s3://awscli")


def test_s5cmd(server, files, tmp_path):
    s5cmd = ["s5cmd", "--endpoint-url", server.url]
    run(*s5cmd, "mb", "s3://s5cmd")
    def list_all():
        done = subprocess.run([*s5cmd, "ls", "s3://s5cmd/*"], env=environment(), capture_output=True, text=True, timeout=60)
        return done.stdout if "no object found" not in done.stderr else ""
    command_line_client(
        *files, tmp_path,
        lambda folder: run(*s5cmd, "cp", "--part-size", "5", f"{folder}/*", "s3://s5cmd/d/"),
        lambda folder: run(*s5cmd, "cp", "s3://s5cmd/d/*", f"{folder}/"),
        lambda: run(*s5cmd, "rm", "s3://s5cmd/d/*"), list_all)


def test_rclone(server, files, tmp_path):
    remote = (f":s3,provider=Other,env_auth=false,access_key_id={ACCESS},secret_access_key={SECRET},"
              f"endpoint='{server.url}',force_path_style=true,upload_cutoff=5Mi,chunk_size=5Mi:rclone")
    rclone = ["rclone", "--config", "/dev/null"]
    run(*rclone, "mkdir", remote)
    command_line_client(
        *files, tmp_path,
        lambda folder: run(*rclone, "copy", str(folder), f"{remote}/d"),
        lambda folder: run(*rclone, "copy", f"{remote}/d", str(folder)),
        lambda: run(*rclone, "purge", f"{remote}/d"),
        lambda: run(*rclone, "lsf", "-R", remote))


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """Creates a tree with empty files, and with spaces, plus signs and non-ASCII letters in names."""
    folder = tmp_path_factory.mktemp("tree")
    contents = {"empty": b"", "a b/empty too": b"", "a b/c+d.txt": b"plus", "a b/c d.txt": b"space", "näme/日本 %25 & =.bin": os.urandom(100_000),
                "deep/er/still/x": b"x", "large": os.urandom(9 * MIB)}
    for name, data in contents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder, contents


def same_tree(folder, contents):
    found = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert found == contents, sorted(found) + sorted(contents)


def test_aws_cli_copies_a_tree(server, tree, tmp_path):
    aws = ["aws", "--endpoint-url", server.url, "s3"]
    run(*aws, "mb", "s3://aws-tree")
    copy = [*aws, "cp", "--recursive", "--only-show-errors"]
    run(*copy, str(tree[0]), "s3://aws-tree/t/")
    run(*copy, "s3://aws-tree/t/", "s3://aws-tree/copy/")
    run(*copy, "s3://aws-tree/copy/", str(tmp_path))
    same_tree(tmp_path, tree[1])


def test_s5cmd_copies_a_tree(server, tree, tmp_path):
    s5cmd = ["s5cmd", "--endpoint-url", server.url]
    run(*s5cmd, "mb", "s3://s5cmd-tree")
    run(*s5cmd, "cp", f"{tree[0]}/", "s3://s5cmd-tree/t/")
    run(*s5cmd, "cp", "s3://s5cmd-tree/t/*", "s3://s5cmd-tree/copy/")
    run(*s5cmd, "cp", "s3://s5cmd-tree/copy/*", f"{tmp_path}/")
    same_tree(tmp_path, tree[1])


def test_rclone_copies_a_tree(server, tree, tmp_path):
    remote = (f":s3,provider=Other,env_auth=false,access_key_id={ACCESS},secret_access_key={SECRET},"
              f"endpoint='{server.url}',force_path_style=true,upload_cutoff=5Mi,chunk_size=5Mi:rclone-tree")
    rclone = ["rclone", "--config", "/dev/null"]
    run(*rclone, "mkdir", remote)
    run(*rclone, "copy", str(tree[0]), f"{remote}/t")
    run(*rclone, "copy", f"{remote}/t", f"{remote}/copy")
    run(*rclone, "copy", f"{remote}/copy", str(tmp_path))
    same_tree(tmp_path, tree[1])


@pytest.mark.skipif(not shutil.which("restic"), reason="restic is not installed")
def test_restic_backs_up_a_tree(server, tree, tmp_path):
    env = environment(RESTIC_PASSWORD="password", RESTIC_REPOSITORY=f"s3:{server.url}/restic-tree/backup",
                      RESTIC_CACHE_DIR=str(tmp_path / "cache"))
    run("restic", "init", env=env)
    run("restic", "backup", ".", env=env, cwd=tree[0])
    run("restic", "check", "--read-data", env=env)
    run("restic", "restore", "latest", "--target", str(tmp_path / "back"), env=env)
    same_tree(tmp_path / "back", tree[1])
