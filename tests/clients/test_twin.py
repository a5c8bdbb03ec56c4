"""`plimsoll serve --like RUN`: the twin of a measured store."""

import http.client
import json
import subprocess

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from support import ACCESS, PLIMSOLL, SECRET, Server, environment


def client(server):
    return boto3.client("s3", endpoint_url=server.url, aws_access_key_id=ACCESS, aws_secret_access_key=SECRET,
                        region_name="us-east-1", config=Config(retries={"max_attempts": 0}))


def run(server, out, *flags):
    """Measures a server; returns the directory of the run and its measured windows."""
    command = [PLIMSOLL, "run", "get", "--store", f"s3://bench?endpoint={server.url}", "--create-bucket", "--size", "1KiB",
               "--out", str(out), "--json", "--quiet", *flags]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return max(out.iterdir()), [w for w in json.loads(done.stdout)["windows"] if w["role"] == "measure"]


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """Returns a run of a server whose answers take 30 ms, and a tenth of whose requests fail."""
    with Server("--inject", "latency=30ms,error=0.1") as server:
        return run(server, tmp_path_factory.mktemp("measured"), "--operations", "400", "--concurrency", "8")[0]


def test_a_twin_has_the_times_and_failures_of_the_measured_store(measured, tmp_path):
    with Server("--like", str(measured)) as twin:
        _, [window] = run(twin, tmp_path, "--operations", "400", "--concurrency", "8")
    # The twin may answer late, but not early.
    assert window["service_ms"]["min"] > 28, window["service_ms"]
    assert list(window["errors"]) == ["503 SlowDown"] and 10 <= window["errors"]["503 SlowDown"] <= 80, window["errors"]


def test_operations_that_were_not_measured_take_the_time_of_similar_ones(measured):
    with Server("--like", str(measured), "--timings", "/dev/stdout") as twin:
        s3 = client(twin)
        s3.create_bucket(Bucket="bench")
        statuses = {"head_object": [], "list_objects_v2": []}
        for name, statuses_of in statuses.items():
            for _ in range(60):
                try:
                    getattr(s3, name)(Bucket="bench", **({"Key": "nothing"} if name == "head_object" else {}))
                    statuses_of.append(200)
                except ClientError as error:
                    statuses_of.append(error.response["ResponseMetadata"]["HTTPStatusCode"])
    assert set(statuses["head_object"]) == {404, 503} and set(statuses["list_objects_v2"]) == {200, 503}, statuses


def test_a_profile_has_the_published_times(tmp_path):
    with Server("--like", "s3-express") as twin:
        _, [window] = run(twin, tmp_path, "--operations", "300", "--concurrency", "4")
    # The fastest of the million published reads took 3.8 ms.
    assert window["service_ms"]["min"] > 3.4 and not window["errors"], window


def findings(path, lag_ms=0, lost=0, violations=1):
    lag = {"writes": 100, "late": 100 if lag_ms else 0, "p50_ms": lag_ms, "p99_ms": lag_ms, "max_ms": lag_ms}
    guarantees = {"put_if_absent": {"checked": 10, "violations": lost, "possible": 0}}
    if lag_ms:
        late = {"checked": 10, "violations": 1, "possible": 0}
        guarantees |= {"read_after_put": late, "list_after_put": late}
    path.write_text(json.dumps({"keys": 1, "violations": violations, "guarantees": guarantees, "lag": lag, "list_lag": lag}))
    return str(path)


def missing(s3, key):
    with pytest.raises(ClientError) as error:
        s3.get_object(Bucket="bench", Key=key)
    return error.value.response["Error"]["Code"] == "NoSuchKey"


def test_violations_of_consistency_are_imitated(tmp_path):
    with Server("--like", findings(tmp_path / "late.json", lag_ms=3_600_000)) as twin:
        s3 = client(twin)
        s3.create_bucket(Bucket="bench")
        s3.put_object(Bucket="bench", Key="a", Body=b"a")
        assert missing(s3, "a") and "Contents" not in s3.list_objects_v2(Bucket="bench")
    with Server("--like", findings(tmp_path / "lost.json", lost=1)) as twin:
        s3 = client(twin)
        s3.create_bucket(Bucket="bench")
        # One of ten conditional writes of each key was lost, and of the keys at least a half: 7%.
        for i in range(200):
            s3.put_object(Bucket="bench", Key=f"a{i}", Body=b"a", IfNoneMatch="*")
            s3.put_object(Bucket="bench", Key=f"b{i}", Body=b"b")
        keys = [listed["Key"] for listed in s3.list_objects_v2(Bucket="bench")["Contents"]]
        counts = {letter: sum(key.startswith(letter) for key in keys) for letter in "ab"}
        assert counts["b"] == 200 and 165 <= counts["a"] <= 199, counts


def test_connections_above_the_limit_are_reset():
    def ask(connection):
        connection.request("GET", "/")
        return connection.getresponse().read()

    with Server("--inject", "connections=2") as server:
        host = server.url.removeprefix("http://")
        first, second, third = (http.client.HTTPConnection(host) for _ in range(3))
        assert ask(first) and ask(second)
        with pytest.raises((ConnectionError, http.client.HTTPException)):
            ask(third)
        assert ask(first), "the others are served"
        second.close()
        for _ in range(10_000):
            try:
                assert ask(http.client.HTTPConnection(host))
                break
            except (ConnectionError, http.client.HTTPException):
                pass
        else:
            pytest.fail("the place of a closed connection is not free")


def test_runs_from_which_no_twin_can_be_made_are_refused(measured, tmp_path):
    def refused(*flags):
        done = subprocess.run([PLIMSOLL, "serve", "--listen", "127.0.0.1:0", *flags], capture_output=True, text=True,
                              env=environment(PLIMSOLL_ACCESS_KEY=ACCESS, PLIMSOLL_SECRET_KEY=SECRET))
        assert done.returncode == 2 and not done.stdout, done
        return done.stderr

    assert "neither a run directory nor a run" in refused("--like", "nothing")
    assert "no run measured s3://other; they measured s3://bench" in refused("--like", str(measured), "--like-store", "s3://other")
    assert "result.json" in refused("--like", str(tmp_path))
    assert "--like" in refused("--like-store", "s3://other")
    assert "use it alone" in refused("--like", "s3-express", "--like", str(measured))
    (tmp_path / "other.json").write_text("{}")
    assert "run consistency --json" in refused("--like", str(tmp_path / "other.json"))
    assert "No such file" in refused("--like", str(tmp_path / "missing.json"))
    assert "cannot imitate" in refused("--like", findings(tmp_path / "torn.json"))
    late = findings(tmp_path / "late.json", lag_ms=40)
    assert "name one" in refused("--like", late, "--like", findings(tmp_path / "none.json", violations=0))
    assert "--inject stale" in refused("--like", late, "--inject", "stale=1s")
    assert "--inject latency" in refused("--like", "s3-express", "--inject", "latency=1ms")
    assert "profiles are s3-express and s3-standard" in refused("--like", "s3-standart")
