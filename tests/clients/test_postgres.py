"""Several gateways on one catalog in PostgreSQL."""
import glob
import json
import os
import random
import re
import signal
import subprocess
import time
import urllib.request

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from postgres import Postgres, programs
from support import ACCESS, GATEWAY, Server
from test_tiers import BLOB, PACK, back, client, files, rule, run, settings, wait

pytestmark = [pytest.mark.skipif(not os.path.exists(GATEWAY), reason="plimsoll-gateway is not built"),
              pytest.mark.skipif(not programs(), reason="PostgreSQL is not installed")]


def shared(directory, database, moves=""):
    """Writes the settings of gateways that share a catalog. Returns the name of the file."""
    path = settings(directory, moves=moves)
    with open(path) as file:
        text = file.read().replace(f"dir:{directory}/catalog", database.url)
    with open(path, "w") as file:
        file.write(text)
    return path


def command(*arguments):
    result = subprocess.run([GATEWAY, *arguments, "--json"], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_every_gateway_sees_what_another_one_has_changed(tmp_path):
    with Postgres() as database, run(shared(tmp_path, database)) as one, run(str(tmp_path / "gateway.toml")) as two:
        a, b = client(one), client(two)
        a.create_bucket(Bucket="shared")
        b.put_object(Bucket="shared", Key="small", Body=b"one")
        a.put_object(Bucket="shared", Key="large", Body=b"x" * BLOB)
        assert a.get_object(Bucket="shared", Key="small")["Body"].read() == b"one"
        assert b.get_object(Bucket="shared", Key="large")["Body"].read() == b"x" * BLOB
        a.put_bucket_versioning(Bucket="shared", VersioningConfiguration={"Status": "Enabled"})
        first = b.put_object(Bucket="shared", Key="small", Body=b"two")["VersionId"]
        second = a.put_object(Bucket="shared", Key="small", Body=b"three")["VersionId"]
        versions = [v["VersionId"] for v in b.list_object_versions(Bucket="shared", Prefix="small")["Versions"]]
        assert versions == [second, first, "null"]
        upload = a.create_multipart_upload(Bucket="shared", Key="parts")["UploadId"]
        parts = [{"PartNumber": n, "ETag": s3.upload_part(Bucket="shared", Key="parts", UploadId=upload, PartNumber=n,
                                                          Body=bytes([n]) * 5_300_000)["ETag"]}
                 for n, s3 in ((1, a), (2, b))]
        b.complete_multipart_upload(Bucket="shared", Key="parts", UploadId=upload, MultipartUpload={"Parts": parts})
        assert a.head_object(Bucket="shared", Key="parts")["ContentLength"] == 10_600_000
        a.put_bucket_tagging(Bucket="shared", Tagging={"TagSet": [{"Key": "k", "Value": "v"}]})
        assert b.get_bucket_tagging(Bucket="shared")["TagSet"] == [{"Key": "k", "Value": "v"}]
        b.create_bucket(Bucket="gone")
        b.delete_bucket(Bucket="gone")
        with pytest.raises(ClientError) as raised:
            a.put_object(Bucket="gone", Key="k", Body=b"")
        assert raised.value.response["Error"]["Code"] == "NoSuchBucket"
        status = command("status", str(tmp_path / "gateway.toml"))
        assert len(status["sessions"]) == 2 and status["leader"] in status["sessions"]
        scrubbed = command("scrub", str(tmp_path / "gateway.toml"))
        assert (scrubbed["objects"], scrubbed["objects_damaged"]) == (5, [])


def test_another_gateway_takes_over_the_moves(tmp_path):
    with Postgres() as database:
        path = shared(tmp_path, database, moves=PACK + rule(when="suffix = 'l'"))
        first, second = run(path), run(path)
        s3 = client(second)
        s3.create_bucket(Bucket="tiers")
        epoch = command("status", path)["epoch"]
        first.process.send_signal(signal.SIGKILL)
        first.process.wait()
        bodies = {f"{n}l": random.randbytes(n * 2000) for n in range(1, 100)}
        for key, body in bodies.items():
            s3.put_object(Bucket="tiers", Key=key, Body=body)
        wait(lambda: not files(tmp_path, "hot") and files(tmp_path, "cold"), "nothing was moved")
        assert command("status", path)["epoch"] > epoch
        with run(path) as third:
            second.process.send_signal(signal.SIGTERM)
            assert second.process.wait() == 0
            for key, body in bodies.items():
                assert client(third).get_object(Bucket="tiers", Key=key)["Body"].read() == body
            wait(lambda: command("status", path)["leader"] == command("status", path)["sessions"][-1], "no leader")
            assert len(command("status", path)["sessions"]) == 1


def test_a_killed_writer_leaves_no_orphans(tmp_path):
    with Postgres() as database, run(shared(tmp_path, database)) as one:
        path = str(tmp_path / "gateway.toml")
        client(one).create_bucket(Bucket="tiers")
        two = run(path)
        import http.client
        from urllib.parse import urlsplit
        from botocore.auth import S3SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.credentials import Credentials
        from support import SECRET
        host = urlsplit(two.url).netloc
        request = AWSRequest("PUT", f"{two.url}/tiers/half", headers={"content-length": str(BLOB * 10),
                                                                      "x-amz-content-sha256": "UNSIGNED-PAYLOAD"})
        S3SigV4Auth(Credentials(ACCESS, SECRET), "s3", "us-east-1").add_auth(request)
        connection = http.client.HTTPConnection(host)
        connection.putrequest("PUT", "/tiers/half", skip_host=True, skip_accept_encoding=True)
        for name, value in {**dict(request.headers), "host": host}.items():
            connection.putheader(name, value)
        connection.endheaders()
        connection.send(b"x" * BLOB * 9)
        pending = "SELECT count(*) FROM plimsoll_catalog WHERE substr(key, 1, 1) = 'x'"
        wait(lambda: database.query(pending) == ["1"], "the upload was not recorded")
        two.process.send_signal(signal.SIGKILL)
        two.process.wait()
        wait(lambda: database.query(pending) == ["0"] and not files(tmp_path, "hot"), "the upload was not given up")


def test_a_killed_database_gives_503_and_loses_nothing(tmp_path):
    with Postgres() as database:
        path = shared(tmp_path, database, moves=PACK + rule(when="suffix = '0'") + back(when="suffix = '5'"))
        with run(path) as one, run(path) as two:
            gateways = [client(one), client(two)]
            gateways[0].create_bucket(Bucket="tiers")
            choice, expected, unknown = random.Random(3), {}, {}
            for round in range(4):
                end = time.time() + choice.uniform(0.5, 1.5)
                while time.time() < end:
                    key, body = f"k{choice.randrange(100)}", choice.randbytes(choice.randrange(1, 20_000))
                    choice.choice(gateways).put_object(Bucket="tiers", Key=key, Body=body)
                    expected[key] = body
                    key = choice.choice(list(expected))
                    assert choice.choice(gateways).get_object(Bucket="tiers", Key=key)["Body"].read() == expected[key]
                database.kill()
                for operation in (lambda: gateways[0].get_object(Bucket="tiers", Key="k1"),
                                  lambda: gateways[1].put_object(Bucket="tiers", Key="k1", Body=b"lost")):
                    with pytest.raises((ClientError, BotoCoreError)) as raised:
                        operation()
                    assert raised.value.response["Error"]["Code"] == "ServiceUnavailable"
                database.start()
                for s3 in gateways:
                    wait(lambda: works(s3), "the gateway does not recover")
            for key, body in expected.items():
                assert gateways[0].get_object(Bucket="tiers", Key=key)["Body"].read() == body, key


def works(s3):
    try:
        s3.put_object(Bucket="tiers", Key="works", Body=b"")
        s3.get_object(Bucket="tiers", Key="works")
        return True
    except ClientError:
        return False


def test_errors_of_the_settings_name_the_problem(tmp_path):
    def refused(text):
        path = settings(tmp_path)
        with open(path) as file:
            text = file.read().replace(f'url = "dir:{tmp_path}/catalog"', text)
        with open(path, "w") as file:
            file.write(text)
        result = subprocess.run([GATEWAY, "status", path], capture_output=True, text=True, timeout=30)
        assert "hunter22" not in result.stderr + result.stdout
        return result.returncode, result.stderr

    code, error = refused('url = "postgres://u:hunter22@127.0.0.1:1/db"')
    assert code == 3 and "the catalog does not answer" in error and "onnection refused" in error
    code, error = refused('url = "postgres://u:hunter22@h/db?sslmode=never"')
    assert code == 2 and "catalog.url" in error and "sslmode" in error
    code, error = refused('url = "postgres://u@h/db"\npassword_env = "NO_SUCH_VARIABLE"')
    assert code == 2 and "NO_SUCH_VARIABLE is not set" in error
    with Postgres() as database:
        code, error = refused(f'url = "{database.url}"')
        assert code == 3 and "there is no catalog in the database" in error


def metric(server, name):
    text = urllib.request.urlopen(server.metrics).read().decode()
    found = re.search(rf"^plimsoll_gateway_{name} ([-\d.e+]+)$", text, re.M)
    return float(found[1]) if found else None


FAKE_TIME = glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")


def run_at(path, offset):
    """Starts a gateway whose clock differs."""
    return Server(path, "--move-every", "50ms", "--metrics-listen", "127.0.0.1:0",
                  command=("env", f"LD_PRELOAD={FAKE_TIME[0]}", f"FAKETIME={offset}", GATEWAY, "run"))


@pytest.mark.skipif(not FAKE_TIME, reason="faketime is not installed")
def test_a_gateway_with_a_wrong_clock_deletes_nothing(tmp_path):
    """Regression test: a gateway whose clock was 40 days ahead became the leader and deleted all objects of a bucket."""
    with Postgres() as database:
        path = shared(tmp_path, database, moves=rule(when="age > 20d"))
        with run(path) as server:
            s3 = client(server)
            s3.create_bucket(Bucket="bucket")
            s3.put_object(Bucket="bucket", Key="key", Body=b"x" * BLOB)
            s3.put_bucket_lifecycle_configuration(Bucket="bucket", LifecycleConfiguration={"Rules": [
                {"ID": "old", "Status": "Enabled", "Filter": {"Prefix": ""}, "Expiration": {"Days": 30}}]})
        with run_at(path, "+40d") as wrong:
            wait(lambda: (metric(wrong, "clock_ahead_seconds") or 0) > 39 * 86400, "the clocks are not compared")
            assert metric(wrong, "leader") == 0
            with run(path) as right:
                wait(lambda: metric(right, "leader") == 1, "the other gateway does not lead")
                assert client(right).get_object(Bucket="bucket", Key="key")["Body"].read() == b"x" * BLOB
                assert (len(files(tmp_path, "hot")), len(files(tmp_path, "cold"))) == (1, 0)


@pytest.mark.skipif(not FAKE_TIME, reason="faketime is not installed")
def test_a_clock_that_is_slow_does_not_shorten_the_retention(tmp_path):
    """Regression test: the time of a removal was that of the gateway, so it could be before the time of retention."""
    with Postgres() as database:
        path = shared(tmp_path, database)
        with open(path) as file:
            text = file.read().replace('deleted = "0s"', 'deleted = "5m"')
        with open(path, "w") as file:
            file.write(text)
        # Clients accept a difference of 15 minutes.
        with run_at(path, "-10m") as slow:
            s3 = client(slow)
            s3.create_bucket(Bucket="bucket")
            s3.put_object(Bucket="bucket", Key="key", Body=b"x" * BLOB)
            s3.delete_object(Bucket="bucket", Key="key")
        found = command("undelete", path, "--bucket", "bucket", "--at", "2m", "--dry-run")
        assert (found["objects"], found["bytes"]) == (1, BLOB)
