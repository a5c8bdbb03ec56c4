"""`plimsoll-gateway adopt` and `release`, with a bucket of another server as the tier."""
import json
import os
import subprocess

import pytest

from support import ACCESS, GATEWAY, SECRET, Server
from test_tiers import client, rule, run, settings, wait

pytestmark = pytest.mark.skipif(not os.path.exists(GATEWAY), reason="plimsoll-gateway is not built")


def command(name, path, *more):
    done = subprocess.run([GATEWAY, name, path, *more, "--json"], capture_output=True, text=True)
    return done.returncode, json.loads(done.stdout) if done.stdout else None, done.stderr


def test_a_bucket_is_adopted_in_place_and_released(tmp_path, monkeypatch):
    monkeypatch.setenv("TIER_ACCESS", ACCESS)
    monkeypatch.setenv("TIER_SECRET", SECRET)
    with Server("--data", str(tmp_path / "backend"), command=(GATEWAY, "run")) as backend:
        plain = client(backend)
        plain.create_bucket(Bucket="existing")
        bodies = {f"photos/{number:02}.jpg": os.urandom(1 + number * 40_000) for number in range(20)}
        for key, body in bodies.items():
            plain.put_object(Bucket="existing", Key=key, Body=body, ContentType="image/jpeg", Metadata={"n": key[7:9]})
        heads = {key: plain.head_object(Bucket="existing", Key=key) for key in bodies}

        def names():
            return [o["Key"] for o in plain.list_objects_v2(Bucket="existing")["Contents"]]

        settings(tmp_path, moves=rule(when="suffix = '7.jpg'").replace('from = "hot"', 'from = "old"'), write='"hot"')
        path = tmp_path / "gateway.toml"
        path.write_text(path.read_text().replace("[write]", f"""[tier.old]
url = "s3://existing?endpoint={backend.url}"
access_key_env = "TIER_ACCESS"
secret_key_env = "TIER_SECRET"
[write]"""))
        code, result, _ = command("adopt", str(path), "--tier", "old", "--bucket", "photos", "--owner", ACCESS, "--dry-run")
        assert (code, result["objects"]) == (0, 20)
        code, _, error = command("release", str(path), "--bucket", "photos", "--tier", "old")
        assert code == 2 and "there is no such bucket" in error, "a dry run creates no bucket"
        code, result, _ = command("adopt", str(path), "--tier", "old", "--bucket", "photos", "--owner", ACCESS)
        assert (code, result["objects"], result["bytes"]) == (0, 20, sum(map(len, bodies.values())))
        code, _, error = command("adopt", str(path), "--tier", "new", "--bucket", "photos")
        assert code == 2 and "there is no tier new; the tiers are cold, hot, old" in error
        assert names() == sorted(bodies)
        with run(str(path)) as server:
            s3 = client(server)
            for key, body in bodies.items():
                found = s3.get_object(Bucket="photos", Key=key)
                assert found["Body"].read() == body
                assert (found["ETag"], found["ContentType"], found["Metadata"], found["LastModified"]) == \
                    (heads[key]["ETag"], "image/jpeg", {"n": key[7:9]}, heads[key]["LastModified"])
            wait(lambda: len(names()) == 18, "two objects move to the cold tier")
            s3.delete_object(Bucket="photos", Key="photos/00.jpg")
            s3.put_object(Bucket="photos", Key="photos/01.jpg", Body=b"small")
            s3.put_object(Bucket="photos", Key="new/large.bin", Body=b"x" * 9_000_000)
            wait(lambda: len(names()) == 16, "deleted and replaced objects leave the tier")
            for key in ("photos/07.jpg", "photos/17.jpg"):
                assert s3.get_object(Bucket="photos", Key=key)["Body"].read() == bodies[key]
        code, result, error = command("release", str(path), "--bucket", "photos", "--tier", "old")
        assert (code, result["written"], result["in_place"]) == (0, 4, 16), error
        code, result, _ = command("release", str(path), "--bucket", "photos", "--tier", "old")
        assert (code, result["written"], result["in_place"]) == (0, 0, 20)
        del bodies["photos/00.jpg"]
        expected = bodies | {"photos/01.jpg": b"small", "new/large.bin": b"x" * 9_000_000}
        assert names() == sorted(expected)
        for key, body in expected.items():
            assert plain.get_object(Bucket="existing", Key=key)["Body"].read() == body
        assert plain.head_object(Bucket="existing", Key="photos/17.jpg")["Metadata"] == {"n": "17"}
        plain.put_object(Bucket="existing", Key="photos/01.jpg", Body=b"other")
        code, result, error = command("release", str(path), "--bucket", "photos", "--tier", "old")
        assert code == 1 and result["conflicts"] == ["photos/01.jpg"] and "1 objects were not written: " in error
