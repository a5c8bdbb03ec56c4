"""What operators do to a running gateway: storage classes, `where`, `status`, `backup`, and a tier that fails."""
import json
import os
import re
import shutil
import signal
import subprocess
import urllib.request

import pytest
from botocore.exceptions import ClientError

from support import ACCESS, GATEWAY, SECRET, Server, environment
from test_owner import command
from test_tiers import BLOB, client, files, rule, run, settings, wait, wait_for_visits

pytestmark = pytest.mark.skipif(not os.path.exists(GATEWAY), reason="plimsoll-gateway is not built")


def change(path, old, new):
    with open(path) as file:
        text = file.read()
    assert old in text
    with open(path, "w") as file:
        file.write(text.replace(old, new))


def with_classes(tmp_path, moves="", retain="0s", cold=True):
    path = settings(tmp_path, moves=moves, retain=retain)
    change(path, f'url = "file://{tmp_path}/hot"', f'url = "file://{tmp_path}/hot"\nstorage_class = "EXPRESS_ONEZONE"')
    if cold:
        change(path, f'url = "file://{tmp_path}/cold"', f'url = "file://{tmp_path}/cold"\nstorage_class = "GLACIER_IR"')
    return path


def where(path, name):
    code, out, error = command("where", path, "--object", name, "--json")
    assert code == 0, error
    return json.loads(out)


def error_code(call, **arguments):
    with pytest.raises(ClientError) as raised:
        call(**arguments)
    return raised.value.response["Error"]["Code"]


def shown_class(s3, key):
    """Returns the storage class by HEAD, a listing and the attributes, which agree."""
    head = s3.head_object(Bucket="bucket", Key=key).get("StorageClass", "STANDARD")
    listed = s3.list_objects_v2(Bucket="bucket", Prefix=key)["Contents"][0]["StorageClass"]
    versions = s3.list_object_versions(Bucket="bucket", Prefix=key)["Versions"][0]["StorageClass"]
    attributes = s3.get_object_attributes(Bucket="bucket", Key=key, ObjectAttributes=["StorageClass"])["StorageClass"]
    got = s3.get_object(Bucket="bucket", Key=key).get("StorageClass", "STANDARD")
    assert head == listed == versions == attributes == got
    return head


def test_a_storage_class_selects_its_tier_and_is_shown(tmp_path):
    path = with_classes(tmp_path)
    with run(path) as server:
        s3 = client(server)
        s3.create_bucket(Bucket="bucket")
        s3.put_object(Bucket="bucket", Key="small", Body=b"x", StorageClass="EXPRESS_ONEZONE")
        s3.put_object(Bucket="bucket", Key="cold", Body=os.urandom(BLOB), StorageClass="GLACIER_IR")
        s3.put_object(Bucket="bucket", Key="default", Body=os.urandom(BLOB))
        s3.put_object(Bucket="bucket", Key="inline", Body=b"x")
        s3.put_object(Bucket="bucket", Key="standard", Body=b"x", StorageClass="STANDARD")
        upload = s3.create_multipart_upload(Bucket="bucket", Key="parts", StorageClass="GLACIER_IR")["UploadId"]
        assert s3.list_multipart_uploads(Bucket="bucket")["Uploads"][0]["StorageClass"] == "GLACIER_IR"
        part = s3.upload_part(Bucket="bucket", Key="parts", UploadId=upload, PartNumber=1, Body=b"small")
        assert s3.list_parts(Bucket="bucket", Key="parts", UploadId=upload)["StorageClass"] == "GLACIER_IR"
        s3.complete_multipart_upload(Bucket="bucket", Key="parts", UploadId=upload,
                                     MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]})
        expected = {"small": "EXPRESS_ONEZONE", "cold": "GLACIER_IR", "default": "EXPRESS_ONEZONE",
                    "inline": "STANDARD", "standard": "STANDARD", "parts": "GLACIER_IR"}
        assert {key: shown_class(s3, key) for key in expected} == expected
        assert {one["Key"]: one["StorageClass"] for one in s3.list_objects(Bucket="bucket")["Contents"]} == expected
        # The blobs of `cold`, of the part, and the list of the parts.
        assert (len(files(tmp_path, "hot")), len(files(tmp_path, "cold"))) == (2, 3)
        # A copy onto itself changes the class.
        s3.copy_object(Bucket="bucket", Key="default", CopySource="bucket/default", StorageClass="GLACIER_IR")
        assert shown_class(s3, "default") == "GLACIER_IR"
        assert error_code(s3.copy_object, Bucket="bucket", Key="default", CopySource="bucket/default",
                          StorageClass="GLACIER_IR") == "InvalidRequest"
        for name in ("WARM", "DEEP_ARCHIVE"):
            assert error_code(s3.put_object, Bucket="bucket", Key="x", Body=b"", StorageClass=name) == "InvalidStorageClass"
            assert error_code(s3.create_multipart_upload, Bucket="bucket", Key="x",
                              StorageClass=name) == "InvalidStorageClass"
        code, keys, _ = command("where", path, "--tier", "cold", "--bucket", "bucket")
        assert keys.splitlines() == [f"cold\t{BLOB}", f"default\t{BLOB}", "parts\t5"]
        code, _, error = command("where", path, "--tier", "warm", "--bucket", "bucket")
        assert code == 2 and "the tiers are cold, hot" in error


def test_where_shows_hot_then_cold(tmp_path):
    moves = rule(keep="1h", when="prefix = 'old/'") + rule(when="age > 7d")
    path = with_classes(tmp_path, moves=moves)
    with run(path) as server:
        s3 = client(server)
        s3.create_bucket(Bucket="bucket")
        s3.put_object(Bucket="bucket", Key="new", Body=os.urandom(BLOB), StorageClass="EXPRESS_ONEZONE")
        s3.put_object(Bucket="bucket", Key="old/a", Body=os.urandom(BLOB), StorageClass="EXPRESS_ONEZONE")
        wait(lambda: len(files(tmp_path, "cold")) == 1, "the object is moved")
        new, old = where(path, "bucket/new"), where(path, "bucket/old/a")
        assert [copy["tier"] for copy in new["pieces"][0]["copies"]] == ["hot"]
        assert new["next"]["action"] == "moves" and new["next"]["to"] == "cold" and new["next"]["rule"] == "move 2"
        assert new["next"]["from"] > new["modified"] and new["storage_class"] == "EXPRESS_ONEZONE"
        assert [copy["tier"] for copy in old["pieces"][0]["copies"]] == ["cold", "hot"]
        kept = old["pieces"][0]["copies"][1]
        assert kept["deleted_after"] > kept["written"] and old["next"]["action"] == "stays"
        assert shown_class(s3, "old/a") == "GLACIER_IR"
        code, out, _ = command("where", path, "--object", "bucket/old/a")
        assert code == 0 and out.startswith("bucket/old/a is in tier cold\n")
        code, _, error = command("where", path, "--object", "bucket/missing")
        assert code == 1 and "does not exist" in error
        # An administrator sees the place in responses, too.
        s3.meta.events.register("before-sign.s3.HeadObject", lambda request, **_: request.headers.add_header(
            "x-plimsoll-where", "1"))
        head = s3.head_object(Bucket="bucket", Key="old/a")
        assert head["ResponseMetadata"]["HTTPHeaders"]["x-plimsoll-where"] == "cold"


def test_settings_that_no_bucket_has_are_not_configured(tmp_path):
    """Clients such as Terraform read them all, and failed with status 501."""
    with Server("--data", str(tmp_path / "data"), command=(GATEWAY, "run")) as server:
        s3 = client(server)
        s3.create_bucket(Bucket="bucket")
        for call, expected in (
            (s3.get_bucket_policy, "NoSuchBucketPolicy"),
            (s3.get_bucket_policy_status, "NoSuchBucketPolicy"),
            (s3.get_bucket_encryption, "ServerSideEncryptionConfigurationNotFoundError"),
            (s3.get_bucket_website, "NoSuchWebsiteConfiguration"),
            (s3.get_bucket_replication, "ReplicationConfigurationNotFoundError"),
            (s3.get_object_lock_configuration, "ObjectLockConfigurationNotFoundError"),
            (s3.get_public_access_block, "NoSuchPublicAccessBlockConfiguration"),
            (s3.get_bucket_ownership_controls, "OwnershipControlsNotFoundError"),
        ):
            assert error_code(call, Bucket="bucket") == expected
            assert error_code(call, Bucket="missing") == "NoSuchBucket"
        assert "LoggingEnabled" not in s3.get_bucket_logging(Bucket="bucket")
        assert "TopicConfigurations" not in s3.get_bucket_notification_configuration(Bucket="bucket")
        assert "Status" not in s3.get_bucket_accelerate_configuration(Bucket="bucket")
        assert s3.get_bucket_request_payment(Bucket="bucket")["Payer"] == "BucketOwner"
        assert error_code(s3.put_bucket_policy, Bucket="bucket", Policy="{}") == "NotImplemented"


def test_a_tier_that_takes_no_writes_is_named_and_a_fallback_replaces_it(tmp_path):
    """A failed write answered with status 500, which did not say what had failed."""
    path = settings(tmp_path)
    with run(path) as server:
        s3 = client(server)
        s3.create_bucket(Bucket="bucket")
        s3.put_object(Bucket="bucket", Key="before", Body=os.urandom(BLOB))
        os.rename(tmp_path / "hot", tmp_path / "away")
        (tmp_path / "hot").write_text("not a directory")
        with pytest.raises(ClientError) as raised:
            s3.put_object(Bucket="bucket", Key="refused", Body=os.urandom(BLOB))
        assert raised.value.response["ResponseMetadata"]["HTTPStatusCode"] == 503
        assert "tier hot" in raised.value.response["Error"]["Message"]
        with pytest.raises(ClientError) as raised:
            s3.get_object(Bucket="bucket", Key="before")
        assert raised.value.response["ResponseMetadata"]["HTTPStatusCode"] == 503
        assert "tier hot" in raised.value.response["Error"]["Message"]
        for _ in range(3):
            error_code(s3.put_object, Bucket="bucket", Key="refused", Body=os.urandom(BLOB))
        ready = urllib.request.urlopen(server.metrics.replace("/metrics", "/readyz")).read().decode()
        assert ready == "ready\ntiers that do not answer: hot\nwrites of blobs fail\n"
        os.remove(tmp_path / "hot")
        os.rename(tmp_path / "away", tmp_path / "hot")
        wait(lambda: s3.put_object(Bucket="bucket", Key="after", Body=os.urandom(BLOB)), "the tier takes writes again")
        assert urllib.request.urlopen(server.metrics.replace("/metrics", "/readyz")).read() == b"ready\n"
    change(path, 'tier = "hot"', 'tier = "hot"\nfallback = "cold"')
    with run(path) as server:
        s3 = client(server)
        os.rename(tmp_path / "hot", tmp_path / "away")
        (tmp_path / "hot").write_text("not a directory")
        body = os.urandom(BLOB)
        # The first request is already answered by the other tier.
        s3.put_object(Bucket="bucket", Key="fallback", Body=body)
        assert s3.get_object(Bucket="bucket", Key="fallback")["Body"].read() == body
        assert [copy["tier"] for copy in where(path, "bucket/fallback")["pieces"][0]["copies"]] == ["cold"]
        assert "running, but these tiers do not answer: hot" not in command("status", path)[1]
        for number in range(4):
            s3.put_object(Bucket="bucket", Key=f"more-{number}", Body=body)
        assert "these tiers do not answer: hot" in command("status", path)[1]
        os.remove(tmp_path / "hot")
        os.rename(tmp_path / "away", tmp_path / "hot")

        def returns():
            s3.put_object(Bucket="bucket", Key="returns", Body=body)
            return where(path, "bucket/returns")["pieces"][0]["copies"][0]["tier"] == "hot"

        wait(returns, "writes return to the tier")


def test_writes_do_not_wait_for_a_tier_that_hangs(tmp_path):
    hot = Server("--quiet")
    client(hot).create_bucket(Bucket="backend")
    path = settings(tmp_path)
    change(path, f"file://{tmp_path}/hot", f"s3://backend?endpoint={hot.url}")
    change(path, 'tier = "hot"', 'tier = "hot"\nfallback = "cold"')
    with run(path) as server:
        s3 = client(server)
        s3.create_bucket(Bucket="bucket")
        s3.put_object(Bucket="bucket", Key="before", Body=os.urandom(BLOB))
        hot.process.send_signal(signal.SIGSTOP)
        body = os.urandom(BLOB)
        for number in range(4):
            s3.put_object(Bucket="bucket", Key=f"after-{number}", Body=body)
        assert s3.get_object(Bucket="bucket", Key="after-3")["Body"].read() == body
        assert len(files(tmp_path, "cold")) == 4
        hot.process.send_signal(signal.SIGCONT)
        wait(lambda: s3.get_object(Bucket="bucket", Key="before"), "the tier answers again")
    hot.process.terminate()


def test_commands_work_while_the_gateway_runs(tmp_path):
    """Commands on a catalog in a directory needed a stopped gateway."""
    path = settings(tmp_path, moves=rule(keep="1h", when="prefix = 'moves/'"), retain="1h")
    body = os.urandom(BLOB)
    with run(path) as server:
        s3 = client(server)
        s3.create_bucket(Bucket="bucket")
        s3.put_object(Bucket="bucket", Key="moves/a", Body=body)
        s3.put_object(Bucket="bucket", Key="gone", Body=body)
        s3.delete_object(Bucket="bucket", Key="gone")
        wait(lambda: len(files(tmp_path, "cold")) == 1, "the object is moved")
        code, out, error = command("undelete", path, "--bucket", "bucket", "--at", "0s")
        assert (code, out) == (0, "0 objects with 0 bytes brought back\n"), error
        s3.put_object(Bucket="bucket", Key="gone", Body=b"new")
        s3.delete_object(Bucket="bucket", Key="gone")
        code, out, error = command("scrub", path, "--rate", "1 GiB")
        assert code == 0 and out.startswith("3 objects and versions"), (out, error)
        code, out, error = command("rollback", path, "--dry-run")
        assert (code, out) == (0, f"1 moves with {BLOB} bytes can be rolled back\n"), error
        code, out, error = command("status", path, "--json")
        state = json.loads(out)
        assert code == 0 and state["leader"] == state["own_session"] and state["owns_tiers"]
        wait_for_visits(server)
        state = json.loads(command("status", path, "--json")[1])
        assert state["counts"]["objects"] == 1 and state["counts"]["kept_objects"] == 2
        assert state["tiers"]["hot"]["kept_bytes"] == BLOB
        code, _, error = command("undelete", path, "--bucket", "missing", "--at", "1s")
        assert code == 2 and "--bucket missing: there is no such bucket" in error
        code, _, error = command("scrub", path, "--accept")
        assert code == 2 and "stop the gateway first" in error
    assert not os.path.exists(tmp_path / "catalog" / "admin.sock")
    code, out, error = command("scrub", path)
    assert code == 0 and out.startswith("3 objects and versions"), (out, error)


def test_a_backup_of_a_running_gateway_is_restored(tmp_path):
    path = settings(tmp_path, moves=rule(keep="0s", when="prefix = 'moves/'"), retain="1h")
    bodies = {f"{kind}/{number}": os.urandom(BLOB) for kind in ("moves", "stays") for number in range(4)}
    with run(path) as server:
        s3 = client(server)
        s3.create_bucket(Bucket="bucket")
        for key, body in bodies.items():
            s3.put_object(Bucket="bucket", Key=key, Body=body)
        code, out, error = command("backup", path, "--to", str(tmp_path / "copy"))
        assert code == 0 and "of the catalog" in out, error
        assert json.loads(command("status", path, "--json")[1])["last_backup_ms"] > 0
        s3.put_object(Bucket="bucket", Key="newer", Body=b"n" * BLOB)
        s3.delete_object(Bucket="bucket", Key="stays/0")
        wait(lambda: len(files(tmp_path, "cold")) == 4, "the objects are moved")
        wait_for_visits(server)
    shutil.rmtree(tmp_path / "catalog")
    code, _, error = command("restore", path, "--from", str(tmp_path / "copy"))
    assert code == 0, error
    with run(path, "--restored") as server:
        s3 = client(server)
        for key, body in bodies.items():
            assert s3.get_object(Bucket="bucket", Key=key)["Body"].read() == body
    code, _, error = command("reconcile", path)
    assert code == 0, error
    with run(path) as server:
        assert client(server).get_object(Bucket="bucket", Key="newer")["Body"].read() == b"n" * BLOB


def test_nothing_is_deleted_while_the_last_backup_is_older_than_what_is_kept(tmp_path):
    # With a rule, all objects are visited all the time.
    path = settings(tmp_path, moves=rule(when="prefix = 'none/'"), retain="1s")
    with run(path) as server:
        s3 = client(server)
        s3.create_bucket(Bucket="bucket")
        code, out, error = command("backup", path, "--done", "1h")
        assert (code, out) == (0, "recorded a backup of 1h ago\n"), error
        s3.put_object(Bucket="bucket", Key="a", Body=os.urandom(BLOB))
        s3.delete_object(Bucket="bucket", Key="a")
        wait_for_visits(server)
        text = urllib.request.urlopen(server.metrics).read().decode()
        age = float(re.search(r"^plimsoll_gateway_backup_age_seconds (\S+)$", text, re.M)[1])
        assert 3600 <= age < 7200 and len(files(tmp_path, "hot")) == 1
        assert "plimsoll_gateway_deletions_stopped 1" in text
        code, out, _ = command("backup", path, "--forget")
        assert code == 0 and "forgotten" in out
        wait(lambda: not files(tmp_path, "hot"), "the bytes are deleted")


def test_the_verification_in_the_background_finds_damage(tmp_path):
    path = settings(tmp_path, moves="[scrub]\nevery = \"100ms\"\nrate = \"1 GiB\"\n")
    with run(path) as server:
        s3 = client(server)
        s3.create_bucket(Bucket="bucket")
        for number in range(3):
            s3.put_object(Bucket="bucket", Key=str(number), Body=os.urandom(BLOB))
        last = lambda: (json.loads(command("status", path, "--json")[1])["scrub"]["last"] or {}).get("counts", {})
        wait(lambda: last().get("objects") == 3, "all objects are verified")
        assert last()["damaged"] == 0
        with open(files(tmp_path, "hot")[1], "r+b") as file:
            file.seek(BLOB // 2)
            file.write(b"damage")
        wait(lambda: last().get("damaged") == 1, "the damage is found")
        text = urllib.request.urlopen(server.metrics).read().decode()
        assert "plimsoll_gateway_scrub_damaged_objects 1" in text


def test_a_store_of_a_data_directory_is_reported_if_its_tier_is_not_in_the_settings(tmp_path):
    """The catalog of `--data DIR` was opened with settings without the tier `blobs`, whose objects answered with 503."""
    with Server("--data", str(tmp_path), command=(GATEWAY, "run")) as server:
        s3 = client(server)
        s3.create_bucket(Bucket="bucket")
        s3.put_object(Bucket="bucket", Key="k", Body=b"x" * (2 << 20))
    path = settings(tmp_path)
    error = command("where", path, "--object", "bucket/k")[2]
    assert "tier blobs is not in the settings" in error
    change(path, "[write]", f'[tier.blobs]\nurl = "file://{tmp_path}/blobs"\n[write]')
    assert command("where", path, "--object", "bucket/k")[2] == ""
    with run(path) as server:
        assert len(client(server).get_object(Bucket="bucket", Key="k")["Body"].read()) == 2 << 20


def test_a_backup_creates_the_directories_above_it(tmp_path):
    path = settings(tmp_path)
    with run(path) as server:
        client(server).create_bucket(Bucket="bucket")
        code, _, error = command("backup", path, "--to", str(tmp_path / "new/day/store"))
        assert code == 0 and (tmp_path / "new/day/store/plimsoll-backup.json").exists(), error


def test_an_offer_without_prices_is_reported(tmp_path):
    path = settings(tmp_path)
    change(path, f'url = "file://{tmp_path}/cold"', f'url = "file://{tmp_path}/cold"\noffer = "cloudflare-r3"')
    with run(path):
        pass
    error = command("where", path, "--object", "bucket/k")[2]
    assert "tier cold: offer: 'cloudflare-r3' has no prices" in error and "its costs are not counted" in error


def test_a_gateway_whose_pages_answer_ends_in_order(tmp_path):
    """A signal that arrived between the first answer of /readyz and the line `listening on` killed the process."""
    words = [GATEWAY, "run", "--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0"]
    environ = environment(PLIMSOLL_ACCESS_KEY=ACCESS, PLIMSOLL_SECRET_KEY=SECRET)
    with subprocess.Popen(words, env=environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout.readline().startswith(b"metrics on ")
        process.terminate()
    assert process.returncode == 0
