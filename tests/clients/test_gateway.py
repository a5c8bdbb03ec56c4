"""Real S3 clients against `plimsoll-gateway`: each writes, reads back, lists and deletes."""
import glob
import io
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.request

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from support import ACCESS, GATEWAY, ROOT, SECRET, Server, environment

pytestmark = pytest.mark.skipif(not os.path.exists(GATEWAY), reason="plimsoll-gateway is not built")


@pytest.fixture(scope="module")
def server():
    with tempfile.TemporaryDirectory() as data, Server("--data", data, command=(GATEWAY, "run")) as server:
        client(server).create_bucket(Bucket="clients")
        yield server


def client(server, **more):
    more = {"aws_access_key_id": ACCESS, "aws_secret_access_key": SECRET, **more}
    return boto3.client("s3", endpoint_url=server.url, region_name="us-east-1",
                        config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 1}), **more)


def code(call, **arguments):
    with pytest.raises(ClientError) as error:
        call(**arguments)
    return error.value.response["Error"]["Code"]


def test_boto3_transfers_large_files(server, tmp_path):
    source = tmp_path / "large"
    source.write_bytes(os.urandom(20_000_000))
    s3 = client(server)
    s3.upload_file(str(source), "clients", "boto3/large")
    s3.download_file("clients", "boto3/large", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == source.read_bytes()
    s3.copy({"Bucket": "clients", "Key": "boto3/large"}, "clients", "boto3/copy")
    assert s3.get_object(Bucket="clients", Key="boto3/copy", Range="bytes=9000000-9000009")["Body"].read() == \
        source.read_bytes()[9_000_000:9_000_010]
    keys = [o["Key"] for o in s3.list_objects_v2(Bucket="clients", Prefix="boto3/")["Contents"]]
    assert keys == ["boto3/copy", "boto3/large"]
    s3.delete_objects(Bucket="clients", Delete={"Objects": [{"Key": key} for key in keys]})
    assert "Contents" not in s3.list_objects_v2(Bucket="clients", Prefix="boto3/")


def test_a_form_with_a_signed_policy_uploads(server):
    s3 = client(server)
    post = s3.generate_presigned_post("clients", "form/${filename}", Fields={"x-amz-meta-a": "1"},
                                      Conditions=[["starts-with", "$key", "form/"], {"x-amz-meta-a": "1"},
                                                  ["content-length-range", 1, 100]])

    def send(content):
        boundary = "x" * 20
        body = io.BytesIO()
        for name, value in post["fields"].items():
            body.write(f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode())
        body.write(f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'.encode())
        body.write(content + f"\r\n--{boundary}--\r\n".encode())
        request = urllib.request.Request(post["url"], body.getvalue(), method="POST",
                                         headers={"Content-Type": f"multipart/form-data; boundary={boundary}"})
        return urllib.request.urlopen(request).status

    assert send(b"hello\r\n--x") == 204
    found = s3.get_object(Bucket="clients", Key="form/a.txt")
    assert (found["Body"].read(), found["Metadata"]) == (b"hello\r\n--x", {"a": "1"})
    for wrong in (b"", b"y" * 101):
        with pytest.raises(urllib.error.HTTPError) as error:
            send(wrong)
        assert error.value.code == 400


def test_an_acknowledged_write_survives_sigkill_and_a_restart(tmp_path):
    data = str(tmp_path / "data")
    server = Server("--data", data, command=(GATEWAY, "run"))
    s3 = client(server)
    s3.create_bucket(Bucket="kill")
    s3.put_bucket_versioning(Bucket="kill", VersioningConfiguration={"Status": "Enabled"})
    versions = [s3.put_object(Bucket="kill", Key="k", Body=str(i).encode())["VersionId"] for i in range(3)]
    s3.put_object(Bucket="kill", Key="large", Body=b"x" * 3_000_000)
    server.process.send_signal(signal.SIGKILL)
    server.process.wait()
    with Server("--data", data, command=(GATEWAY, "run")) as again:
        s3 = client(again)
        assert [s3.get_object(Bucket="kill", Key="k", VersionId=v)["Body"].read() for v in versions] == [b"0", b"1", b"2"]
        assert s3.get_object(Bucket="kill", Key="large")["Body"].read() == b"x" * 3_000_000
    for command in ("scrub", "status", "rebuild-index"):
        done = subprocess.run([GATEWAY, command, "--data", data, "--json"], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        json.loads(done.stdout)


def test_status_counts_no_blobs_that_it_has_not_visited(tmp_path):
    """Regression test: a gateway without rules said "0 blobs, 0 bytes", whatever its tier had."""
    data = str(tmp_path / "data")
    with Server("--data", data, command=(GATEWAY, "run")) as server:
        s3 = client(server)
        s3.create_bucket(Bucket="bucket")
        s3.put_object(Bucket="bucket", Key="key", Body=bytes(2_000_000))
        shown = subprocess.run([GATEWAY, "status", "--data", data], capture_output=True, text=True, check=True).stdout
        assert "tier       blobs: not counted by this gateway yet\n" in shown, shown


def test_status_tells_what_is_known_beside_a_damaged_index(tmp_path):
    """Regression test: `status` and `plan` failed if the manifest was damaged."""
    data = str(tmp_path / "data")
    with Server("--data", data, command=(GATEWAY, "run")) as server:
        client(server).create_bucket(Bucket="status")
    manifest = os.path.join(data, "catalog", "index", "MANIFEST")
    with open(manifest, "r+b") as file:
        file.seek(20)
        file.write(b"x")
    status = lambda *more: subprocess.run([GATEWAY, "status", "--data", data, *more], capture_output=True, text=True)
    assert status().returncode == 1 and "state      unknown" in status().stdout and "0 bytes" not in status().stdout
    assert "the checksum is wrong" in json.loads(status("--json").stdout)["damaged"][0]
    with Server("--data", data, command=(GATEWAY, "run")) as server:
        assert [b["Name"] for b in client(server).list_buckets()["Buckets"]] == ["status"]
    assert status().returncode == 0


def test_a_damaged_object_answers_500_until_it_is_written_again(tmp_path):
    data = str(tmp_path / "data")
    with Server("--data", data, command=(GATEWAY, "run")) as server:
        s3 = client(server)
        s3.create_bucket(Bucket="damage")
        for name in "abc":
            s3.put_object(Bucket="damage", Key=name, Body=name.encode() * 1000)
    log = os.path.join(data, "catalog", "log")
    path = max(path for path in glob.glob(os.path.join(log, "*.log")) if os.path.getsize(path))
    content = open(path, "rb").read()
    at = content.index(b"b" * 1000)
    open(path, "wb").write(content[:at + 5] + b"X" + content[at + 6:])
    done = subprocess.run([GATEWAY, "scrub", "--data", data], capture_output=True, text=True)
    assert done.returncode == 1 and "damaged object: damage/b" in done.stdout, done.stdout
    with Server("--data", data, command=(GATEWAY, "run")) as server:
        s3 = client(server)
        assert code(s3.get_object, Bucket="damage", Key="b") == "InternalError"
        assert s3.get_object(Bucket="damage", Key="c")["Body"].read() == b"c" * 1000
        s3.put_object(Bucket="damage", Key="b", Body=b"new")
        assert s3.get_object(Bucket="damage", Key="b")["Body"].read() == b"new"


def test_accounts_have_rights(tmp_path):
    path = tmp_path / "accounts.toml"
    path.write_text("public = ['web']\n[[account]]\naccess_key = 'owner'\nsecret_key = 'owner-secret'\nwrite = true\n"
                    "[[account]]\naccess_key = 'reader'\nsecret_key = 'reader-secret'\nbuckets = ['logs-*']\n")
    path.chmod(0o600)
    with Server("--data", str(tmp_path / "data"), "--credentials", str(path), command=(GATEWAY, "run")) as server:
        owner = client(server, aws_access_key_id="owner", aws_secret_access_key="owner-secret")
        reader = client(server, aws_access_key_id="reader", aws_secret_access_key="reader-secret")
        for bucket in ("logs-1", "web", "other"):
            owner.create_bucket(Bucket=bucket)
            owner.put_object(Bucket=bucket, Key="k", Body=b"v")
        assert reader.get_object(Bucket="logs-1", Key="k")["Body"].read() == b"v"
        assert [b["Name"] for b in reader.list_buckets()["Buckets"]] == ["logs-1"]
        assert code(reader.get_object, Bucket="other", Key="k") == "AccessDenied"
        assert code(reader.put_object, Bucket="logs-1", Key="k", Body=b"w") == "AccessDenied"
        assert urllib.request.urlopen(f"{server.url}/web/k").read() == b"v"
        for url in (f"{server.url}/other/k", f"{server.url}/"):
            with pytest.raises(urllib.error.HTTPError) as error:
                urllib.request.urlopen(url).read()
            assert error.value.code == 403
        path.write_text(path.read_text().replace("public = ['web']", "public = []"))
        server.process.send_signal(signal.SIGHUP)
        for _ in range(200):
            try:
                urllib.request.urlopen(f"{server.url}/web/k").read()
            except urllib.error.HTTPError as error:
                assert error.code == 403
                break
            time.sleep(0.02)
        else:
            pytest.fail("the accounts were not reloaded")


def test_cors_rules_apply(server):
    s3 = client(server)
    s3.put_bucket_cors(Bucket="clients", CORSConfiguration={"CORSRules": [
        {"AllowedOrigins": ["http://app.example"], "AllowedMethods": ["GET"], "AllowedHeaders": ["*"]}]})
    assert s3.get_bucket_cors(Bucket="clients")["CORSRules"][0]["AllowedMethods"] == ["GET"]

    def preflight(origin):
        headers = {"Origin": origin, "Access-Control-Request-Method": "GET"}
        return urllib.request.urlopen(urllib.request.Request(f"{server.url}/clients/k", headers=headers, method="OPTIONS"))

    assert preflight("http://app.example").headers["Access-Control-Allow-Origin"] == "http://app.example"
    with pytest.raises(urllib.error.HTTPError) as error:
        preflight("http://other.example")
    assert error.value.code == 403
    s3.delete_bucket_cors(Bucket="clients")


def test_metrics_and_health(tmp_path):
    log = tmp_path / "access.jsonl"
    with Server("--data", str(tmp_path / "data"), "--metrics-listen", "127.0.0.1:0", "--access-log", str(log),
                command=(GATEWAY, "run")) as server:
        metrics = server.metrics
        client(server).create_bucket(Bucket="metrics")
        text = urllib.request.urlopen(metrics).read().decode()
        assert 'plimsoll_gateway_requests_total{bucket="metrics",operation="CreateBucket",status="200"} 1' in text
        assert "plimsoll_gateway_sync_seconds_total" in text and "plimsoll_gateway_live_bytes" in text
        base = metrics.rsplit("/", 1)[0]
        assert urllib.request.urlopen(f"{base}/readyz").read() == b"ready\n"
        assert urllib.request.urlopen(f"{base}/healthz").status == 200
    line = json.loads(log.read_text().splitlines()[0])
    assert (line["operation"], line["status"], line["access_key"]) == ("CreateBucket", 200, ACCESS)
    assert SECRET not in log.read_text()


def run(server, *command, **more):
    done = subprocess.run(command, env=environment(AWS_ENDPOINT_URL=server.url, **more), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(not shutil.which("aws"), reason="the AWS CLI is not installed")
def test_aws_cli(server, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    for i in range(5):
        (folder / f"{i}").write_bytes(os.urandom(1000 * 7 ** i))
    run(server, "aws", "s3", "sync", str(folder), "s3://clients/aws/")
    run(server, "aws", "s3", "sync", "s3://clients/aws/", str(tmp_path / "back"))
    for i in range(5):
        assert (tmp_path / "back" / f"{i}").read_bytes() == (folder / f"{i}").read_bytes()
    run(server, "aws", "s3", "rm", "--recursive", "s3://clients/aws/")
    assert "aws/" not in run(server, "aws", "s3", "ls", "s3://clients/")


def rclone_environment(server):
    return {"RCLONE_CONFIG_G_TYPE": "s3", "RCLONE_CONFIG_G_PROVIDER": "Other", "RCLONE_CONFIG_G_ENDPOINT": server.url,
            "RCLONE_CONFIG_G_ACCESS_KEY_ID": ACCESS, "RCLONE_CONFIG_G_SECRET_ACCESS_KEY": SECRET}


def test_rclone(server, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    for i in range(20):
        (folder / f"ä {i}").write_bytes(os.urandom(5000 * i))
    more = rclone_environment(server)
    run(server, "rclone", "copy", str(folder), "g:clients/rclone", **more)
    run(server, "rclone", "check", str(folder), "g:clients/rclone", "--download", **more)
    run(server, "rclone", "purge", "g:clients/rclone", **more)


@pytest.mark.skipif(not shutil.which("restic"), reason="restic is not installed")
def test_restic(server, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "data").write_bytes(os.urandom(9_000_000))
    repository = f"s3:{server.url}/clients/restic"
    more = {"RESTIC_PASSWORD": "password", "HOME": str(tmp_path)}
    run(server, "restic", "-r", repository, "init", **more)
    run(server, "restic", "-r", repository, "backup", str(folder), **more)
    run(server, "restic", "-r", repository, "check", "--read-data", **more)
    run(server, "restic", "-r", repository, "restore", "latest", "--target", str(tmp_path / "back"), **more)
    restored = tmp_path / "back" / str(folder).lstrip("/") / "data"
    assert restored.read_bytes() == (folder / "data").read_bytes()
    run(server, "restic", "-r", repository, "forget", "latest", "--keep-last", "1", "--prune", **more)


@pytest.mark.skipif(not shutil.which("s5cmd"), reason="s5cmd is not installed")
def test_s5cmd(server, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    for i in range(10):
        (folder / f"{i}").write_bytes(os.urandom(300_000 * i))
    more = {"S3_ENDPOINT_URL": server.url}
    run(server, "s5cmd", "cp", f"{folder}/*", "s3://clients/s5cmd/", **more)
    assert len(run(server, "s5cmd", "ls", "s3://clients/s5cmd/", **more).splitlines()) == 10
    run(server, "s5cmd", "cp", "s3://clients/s5cmd/*", f"{tmp_path}/back/", **more)
    assert (tmp_path / "back" / "9").read_bytes() == (folder / "9").read_bytes()
    run(server, "s5cmd", "rm", "s3://clients/s5cmd/*", **more)


def test_polars(server):
    polars = pytest.importorskip("polars")
    options = {"aws_endpoint_url": server.url, "aws_access_key_id": ACCESS, "aws_secret_access_key": SECRET,
               "aws_region": "us-east-1", "aws_allow_http": "true"}
    frame = polars.DataFrame({"a": range(100_000), "b": [str(i) for i in range(100_000)]})
    frame.write_parquet("s3://clients/polars/table.parquet", storage_options=options)
    found = polars.scan_parquet("s3://clients/polars/*.parquet", storage_options=options)
    assert found.filter(polars.col("a") == 77_777).collect()["b"].to_list() == ["77777"]


def test_pyarrow(server):
    pyarrow = pytest.importorskip("pyarrow")
    import pyarrow.fs
    import pyarrow.parquet
    fs = pyarrow.fs.S3FileSystem(access_key=ACCESS, secret_key=SECRET, scheme="http", region="us-east-1",
                                 endpoint_override=server.url.split("//")[1])
    table = pyarrow.table({"a": list(range(200_000))})
    pyarrow.parquet.write_table(table, "clients/arrow/table.parquet", filesystem=fs)
    assert pyarrow.parquet.read_table("clients/arrow/table.parquet", filesystem=fs).equals(table)
    assert [f.base_name for f in fs.get_file_info(pyarrow.fs.FileSelector("clients/arrow"))] == ["table.parquet"]
    fs.delete_dir("clients/arrow")


def test_duckdb(server):
    duckdb = pytest.importorskip("duckdb")
    pytest.importorskip("duckdb_extension_httpfs")
    from duckdb_extensions import import_extension
    import_extension("httpfs")
    db = duckdb.connect()
    db.execute("LOAD httpfs")
    host = server.url.split("//")[1]
    db.execute(f"CREATE SECRET (TYPE s3, KEY_ID '{ACCESS}', SECRET '{SECRET}', ENDPOINT '{host}', USE_SSL false, "
               "URL_STYLE 'path', REGION 'us-east-1')")
    db.execute("COPY (SELECT range AS a FROM range(300000)) TO 's3://clients/duckdb/table.parquet' (FORMAT parquet)")
    assert db.execute("SELECT count(*), sum(a) FROM 's3://clients/duckdb/*.parquet'").fetchone() == \
        (300_000, 299_999 * 150_000)


# It needs another version of botocore than boto3, and has its own environment.
S3FS = """
import os, s3fs
fs = s3fs.S3FileSystem(client_kwargs={"endpoint_url": os.environ["AWS_ENDPOINT_URL"]})
with fs.open("clients/s3fs/a", "wb") as file:
    file.write(b"x" * 12_000_000)
with fs.open("clients/s3fs/a", "rb") as file:
    file.seek(11_999_990)
    assert file.read() == b"x" * 10
assert fs.ls("clients/s3fs") == ["clients/s3fs/a"]
fs.rm("clients/s3fs", recursive=True)
assert not fs.exists("clients/s3fs/a")
"""


def test_s3fs(server):
    run(server, f"{ROOT}/.venv/s3fs/bin/python", "-c", S3FS)
