"""`plimsoll-gateway adopt` and `release`, with a bucket of another server as the tier."""
import json
import os
import subprocess

import pytest

from support import ACCESS, GATEWAY, SECRET, Server
from test_tiers import PACK, client, files, moves_planned, rule, run, settings, wait

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
            listed = plain.list_objects_v2(Bucket="existing")["Contents"]
            return [o["Key"] for o in listed if o["Key"] not in ("plimsoll-owner.json", "plimsoll-buckets.json")]

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


def upload(s3, bucket, key, sizes, **more):
    """Uploads an object in parts of these sizes."""
    upload = s3.create_multipart_upload(Bucket=bucket, Key=key, ChecksumAlgorithm="SHA256", **more)["UploadId"]
    parts = []
    for number, size in enumerate(sizes, 1):
        part = s3.upload_part(Bucket=bucket, Key=key, UploadId=upload, PartNumber=number, Body=os.urandom(size),
                              ChecksumAlgorithm="SHA256")
        parts.append({"PartNumber": number, "ETag": part["ETag"], "ChecksumSHA256": part["ChecksumSHA256"]})
    s3.complete_multipart_upload(Bucket=bucket, Key=key, UploadId=upload, MultipartUpload={"Parts": parts})


def described(s3, bucket, key, parts=0):
    """What clients see of an object besides its bytes."""
    head = s3.head_object(Bucket=bucket, Key=key)
    tags = s3.get_object_tagging(Bucket=bucket, Key=key)["TagSet"]
    sizes = [s3.head_object(Bucket=bucket, Key=key, PartNumber=n + 1)["ContentLength"] for n in range(parts)]
    expires = head["ResponseMetadata"]["HTTPHeaders"].get("expires")
    return head["ETag"], head["ContentType"], head["Metadata"], expires, tags, sizes


def test_tags_checksums_and_parts_are_adopted_and_released(tmp_path, monkeypatch):
    """Found by a user: adopted objects had no tags and one part, and released ones another entity tag."""
    monkeypatch.setenv("TIER_ACCESS", ACCESS)
    monkeypatch.setenv("TIER_SECRET", SECRET)
    mib = 1 << 20
    uploads = {"equal": [5 * mib, 5 * mib, 3], "unequal": [5 * mib, 7 * mib, 6 * mib, 9], "one": [4000]}
    with Server("--data", str(tmp_path / "backend"), command=(GATEWAY, "run")) as backend:
        plain = client(backend)
        for bucket in ("existing", "released"):
            plain.create_bucket(Bucket=bucket)
        for key, sizes in uploads.items():
            upload(plain, "existing", key, sizes, Tagging="team=a%20b&kind=", Metadata={"n": key})
        plain.put_object(Bucket="existing", Key="small", Body=b"s" * 9000, Tagging="only=1", ContentType="text/x",
                         Expires="Thu, 01 Jan 2099 00:00:00 GMT", ChecksumAlgorithm="CRC32C")
        keys = {**{key: len(sizes) for key, sizes in uploads.items()}, "small": 0}
        before = {key: described(plain, "existing", key, parts) for key, parts in keys.items()}
        assert before["unequal"][5] == uploads["unequal"] and len(before["equal"][4]) == 2
        settings(tmp_path, moves=rule(when="size > 0").replace('from = "hot"', 'from = "existing"'), write='"hot"')
        path = tmp_path / "gateway.toml"
        tiers = "".join(f"""[tier.{name}]
url = "s3://{name}?endpoint={backend.url}"
access_key_env = "TIER_ACCESS"
secret_key_env = "TIER_SECRET"
offer = "none"
""" for name in ("existing", "released"))
        path.write_text(path.read_text().replace("[write]", f"{tiers}[write]"))
        code, result, error = command("adopt", str(path), "--tier", "existing", "--bucket", "adopted", "--owner", ACCESS)
        assert (code, result["objects"]) == (0, 4), (error, result["skipped"])
        checksums = {key: plain.head_object(Bucket="existing", Key=key, ChecksumMode="ENABLED") for key in keys}
        with run(str(path)) as server:
            s3 = client(server)
            for key, parts in keys.items():
                assert described(s3, "adopted", key, parts) == before[key]
                head = s3.head_object(Bucket="adopted", Key=key, ChecksumMode="ENABLED")
                for name in ("ChecksumSHA256", "ChecksumCRC32C", "ChecksumType"):
                    assert head.get(name) == checksums[key].get(name)
            wait(lambda: moves_planned(str(path)) == 0, "all objects move")
            assert described(s3, "adopted", "unequal", 4) == before["unequal"]
        code, result, error = command("release", str(path), "--bucket", "adopted", "--tier", "released")
        assert (code, result["written"]) == (0, 4), error
        for key, parts in keys.items():
            expected = list(before[key])
            expected[3] = None  # The client of the backends does not write this header.
            assert list(described(plain, "released", key, parts)) == expected
        code, result, error = command("release", str(path), "--bucket", "adopted", "--tier", "existing", "--without-tags",
                                      "--overwrite")
        assert (code, result["written"] + result["in_place"]) == (0, 4), error
        assert described(plain, "existing", "equal", 3)[5] == uploads["equal"]


# Keys whose characters clients encode in requests.
KEYS = ["k/ü.txt", "k/t~t", "k/q#x?y", "k/p%41", "k/日本", "k/a*b|c^`{d}<e>", "k/quote\"\\", "k/plus+and space", "ü/~"]


def test_keys_with_any_characters_are_adopted_and_released(tmp_path, monkeypatch):
    monkeypatch.setenv("TIER_ACCESS", ACCESS)
    monkeypatch.setenv("TIER_SECRET", SECRET)
    with Server("--data", str(tmp_path / "backend"), command=(GATEWAY, "run")) as backend:
        plain = client(backend)
        for bucket in ("existing", "released"):
            plain.create_bucket(Bucket=bucket)
        bodies = {key: key.encode() * 30_000 for key in KEYS}
        for key, body in bodies.items():
            plain.put_object(Bucket="existing", Key=key, Body=body)
        # Regression test: one of these keys ended the whole adoption.
        odd = ["a//b", "k//q", "z//"]
        for key in ["folder/", *odd]:
            plain.put_object(Bucket="existing", Key=key, Body=b"")
        settings(tmp_path, write='"hot"')
        path = tmp_path / "gateway.toml"
        tiers = "".join(f"""[tier.{name}]
url = "s3://{name}?endpoint={backend.url}"
access_key_env = "TIER_ACCESS"
secret_key_env = "TIER_SECRET"
""" for name in ("existing", "released"))
        path.write_text(path.read_text().replace("[write]", f"{tiers}[write]"))
        code, result, error = command("adopt", str(path), "--tier", "existing", "--bucket", "adopted", "--owner", ACCESS)
        assert (code, result["objects"], sorted(result["skipped"])) == (1, len(KEYS), sorted([*odd, "folder"])), error
        code, result, _ = command("adopt", str(path), "--tier", "existing", "--bucket", "adopted", "--prefix", "ü/", "--dry-run")
        assert (code, result["existing"]) == (0, 1), "the prefix is not encoded twice"
        code, _, error = command("adopt", str(path), "--tier", "existing", "--bucket", "No_Name")
        assert code == 2 and "this is no name of a bucket" in error
        with run(str(path)) as server:
            for key, body in bodies.items():
                assert client(server).get_object(Bucket="adopted", Key=key)["Body"].read() == body
        code, result, _ = command("scrub", str(path))
        assert (code, result["objects"], result["objects_damaged"]) == (0, len(KEYS), [])
        code, result, error = command("release", str(path), "--bucket", "adopted", "--tier", "released")
        assert (code, result["written"]) == (0, len(KEYS)), error
        for key, body in bodies.items():
            assert plain.get_object(Bucket="released", Key=key)["Body"].read() == body
    code, result, error = command("scrub", str(path))
    assert code == 1 and f"{len(KEYS)} objects were not verified, because their tiers do not answer" in error
    assert (result["objects"], len(result["objects_unverified"]), result["objects_damaged"]) == (0, len(KEYS), [])


def test_a_release_goes_on_after_a_key_that_the_tier_cannot_store(tmp_path):
    """Regression test: a name that is too long for a file system ended the whole release."""
    path = settings(tmp_path)
    keys = ["a", "d/" + "n" * 300, "z"]
    with run(path) as server:
        client(server).create_bucket(Bucket="tiers")
        for key in keys:
            client(server).put_object(Bucket="tiers", Key=key, Body=key.encode())
    for more in ([], ["--dry-run"]):
        code, result, error = command("release", path, "--bucket", "tiers", "--tier", "cold", *more)
        assert (code, result["written"] + result["in_place"], list(result["failed"])) == (1, 2, [keys[1]]), error
    assert (tmp_path / "cold" / "a").read_bytes() == b"a" and (tmp_path / "cold" / "z").read_bytes() == b"z"


def test_an_adopted_object_that_moves_into_a_segment_keeps_its_source(tmp_path):
    """Found by a user: the sources disappeared after ten seconds instead of `keep_source`."""
    old = tmp_path / "old"
    old.mkdir()
    for key in ("ü~#", "b"):
        (old / key).write_bytes(key.encode() * 15_000)
    settings(tmp_path, moves=PACK + rule(keep="1h", source="old"), write='"hot"')
    path = tmp_path / "gateway.toml"
    path.write_text(path.read_text().replace("[write]", f'[tier.old]\nurl = "file://{old}"\n[write]'))
    code, result, error = command("adopt", str(path), "--tier", "old", "--bucket", "adopted", "--owner", ACCESS)
    assert (code, result["objects"]) == (0, 2), error
    with run(str(path)) as server:
        wait(lambda: moves_planned(str(path)) == 0 and len(files(tmp_path, "cold")) > 0, "the objects are in a segment")
        for key in ("ü~#", "b"):
            assert client(server).get_object(Bucket="adopted", Key=key)["Body"].read() == key.encode() * 15_000
    code, result, _ = command("sweep", str(path))
    assert (code, len(files(tmp_path, "old"))) == (0, 2)
    garbage = subprocess.run([GATEWAY, "release", str(path), "--bucket", "adopted", "--tier", "old"], capture_output=True, text=True)
    assert garbage.returncode == 0, garbage.stderr
    assert sorted(os.path.basename(path) for path in files(tmp_path, "old")) == sorted(["ü~#", "b"])


def test_tiers_must_not_share_a_place(tmp_path):
    for other in ("hot", "hot/within", "hot/../hot/"):
        settings(tmp_path, write='"hot"')
        path = tmp_path / "gateway.toml"
        path.write_text(path.read_text().replace("[write]", f'[tier.other]\nurl = "file://{tmp_path}/{other}"\n[write]'))
        done = subprocess.run([GATEWAY, "run", str(path)], capture_output=True, text=True,
                              env=dict(os.environ, PLIMSOLL_ACCESS_KEY=ACCESS, PLIMSOLL_SECRET_KEY=SECRET))
        assert done.returncode == 2 and "its objects are in the place of tier" in done.stderr, done.stderr
