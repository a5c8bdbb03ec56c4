"""`run --follow`: a standby copies the catalog of the gateway that leads, and leads when that one does not any more."""
import contextlib
import json
import os
import shutil
import signal
import subprocess
import urllib.request

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from support import ACCESS, GATEWAY, SECRET, Server, environment
from test_backup import client, command, state
from test_journal import Writers, body, check, gateway, lose, object_store, settings
from test_tiers import wait


def place(store):
    return f"s3://place/gateway?endpoint={store.url}"


@contextlib.contextmanager
def standby(file, store, *more):
    """A standby, whose process also leads and follows again: it ends as a whole."""
    server = Server("--follow", place(store), *more, command=(GATEWAY, "run", file))
    try:
        yield server
    finally:
        server.process.send_signal(signal.SIGCONT)
        server.process.terminate()
        # A process that has just started itself again has no handler yet.
        assert server.process.wait() in (0, -signal.SIGTERM), "the standby failed"


def status(file):
    return json.loads(command("status", file, "--json"))


def following(file):
    """Returns what a standby says about itself; nothing between two phases, when no process answers."""
    done = subprocess.run([GATEWAY, "status", file, "--json"], capture_output=True, text=True, env=environment())
    return (json.loads(done.stdout).get("following") or {}) if done.returncode == 0 else {}


def has_everything(leader, file):
    """Waits until the copy has the last write of the gateway that leads."""
    client(leader).put_object(Bucket="bucket", Key="last", Body=b"last")
    words = [GATEWAY, "where", file, "--object", "bucket/last", "--json"]
    wait(lambda: subprocess.run(words, capture_output=True).returncode == 0, "the standby has the last write")


def serves(server):
    """Returns true if a gateway accepts writes."""
    try:
        client(server).put_object(Bucket="bucket", Key="probe", Body=b"probe")
        return True
    except (ClientError, BotoCoreError):
        return False


@pytest.mark.parametrize("durability", ["tier", "local"])
def test_a_standby_leads_when_the_machine_of_the_leader_is_lost(tmp_path, durability):
    with object_store() as store:
        leader = gateway(settings(tmp_path / "leader", store, durability=durability))
        s3 = client(leader)
        s3.create_bucket(Bucket="bucket")
        for number in range(50):
            s3.put_object(Bucket="bucket", Key=f"key-{number}", Body=str(number).encode() * (number * 50))
        file = settings(tmp_path / "standby", store, durability=durability)
        with standby(file, store) as server:
            with pytest.raises(ClientError) as error:
                client(server).get_object(Bucket="bucket", Key="key-1")
            assert error.value.response["ResponseMetadata"]["HTTPStatusCode"] == 503
            assert "standby" in error.value.response["Error"]["Message"]
            has_everything(leader, file)
            expected = state(s3)
            assert "another gateway leads" in command("status", file)
            lose(leader)
            shutil.rmtree(tmp_path / "leader")
            wait(lambda: serves(server), "the standby leads")
            client(server).delete_object(Bucket="bucket", Key="probe")
            found = state(client(server))
            found.pop(("bucket", "probe"), None)
            assert {key: value for key, value in found.items() if "probe" not in str(key)} == expected
            assert status(file)["following"] is None


def test_a_standby_that_leads_has_every_acknowledged_write_of_a_tier(tmp_path):
    written = {}
    with object_store() as store:
        leader = gateway(settings(tmp_path / "leader", store))
        client(leader).create_bucket(Bucket="bucket")
        with standby(settings(tmp_path / "standby", store), store) as server:
            writers = Writers(leader.url, 1, written)
            wait(lambda: sum(len(bodies) == 1 for bodies in written.values()) >= 60, "the clients write")
            lose(leader)
            writers.join()
            wait(lambda: serves(server), "the standby leads")
            check(client(server), written)


@pytest.mark.parametrize("durability", ["tier", "local"])
def test_a_promotion_loses_nothing_and_the_old_leader_follows(tmp_path, durability):
    with object_store() as store:
        files = [settings(tmp_path / name, store, durability=durability) for name in ["a", "b"]]
        first = gateway(files[0])
        client(first).create_bucket(Bucket="bucket")
        with first:
            pass
        # Both have the same command line: one leads, the other follows.
        with standby(files[0], store) as a:
            wait(lambda: serves(a), "the first one leads")
            with standby(files[1], store) as b:
                for number in range(20):
                    client(a).put_object(Bucket="bucket", Key=f"key-{number}", Body=b"1")
                text = command("promote", files[1])
                assert "this one begins" in text, text
                wait(lambda: serves(b), "the promoted gateway leads")
                assert len(client(b).list_objects_v2(Bucket="bucket")["Contents"]) == 21
                wait(lambda: following(files[0]).get("leader") == "leads", "the other one follows")
                assert not serves(a)
                # And back.
                client(b).put_object(Bucket="bucket", Key="later", Body=b"2")
                command("promote", files[0])
                wait(lambda: serves(a), "the first one leads again")
                assert body(client(a), "later") == b"2"
                assert "it leads" in command("promote", files[0], code=2)


def test_clients_read_an_older_state_of_a_standby_if_it_says_so(tmp_path):
    with object_store() as store:
        with gateway(settings(tmp_path / "leader", store)) as leader:
            s3 = client(leader)
            s3.create_bucket(Bucket="bucket")
            s3.put_object(Bucket="bucket", Key="small", Body=b"1")
            s3.put_object(Bucket="bucket", Key="large", Body=b"2" * 100_000)
            file = settings(tmp_path / "standby", store)
            with standby(file, store, "--stale-reads", "--metrics-listen", "127.0.0.1:0") as server:
                stale = client(server)
                has_everything(leader, file)
                assert state(stale) == state(s3)
                s3.create_bucket(Bucket="second")
                s3.put_object(Bucket="second", Key="new", Body=b"3")
                s3.delete_object(Bucket="bucket", Key="small")
                wait(lambda: body(stale, "small") is None, "the copy follows")
                assert stale.get_object(Bucket="second", Key="new")["Body"].read() == b"3"
                for call in [lambda: stale.put_object(Bucket="bucket", Key="k", Body=b"late"),
                             lambda: stale.put_object(Bucket="bucket", Key="k", Body=bytes(100_000)),
                             lambda: stale.delete_object(Bucket="bucket", Key="large"),
                             # Without effect on the copy, it seemed to succeed.
                             lambda: stale.delete_object(Bucket="bucket", Key="unknown"),
                             lambda: stale.create_bucket(Bucket="third"),
                             lambda: stale.create_multipart_upload(Bucket="bucket", Key="k")]:
                    with pytest.raises(ClientError) as error:
                        call()
                    assert error.value.response["ResponseMetadata"]["HTTPStatusCode"] == 503, error.value
                text = urllib.request.urlopen(server.metrics).read().decode()
                assert "plimsoll_gateway_standby_lag_seconds" in text
                assert "changes nothing" in command("undelete", file, "--bucket", "bucket", "--prefix", "", "--at", "1h", code=3)


def test_a_standby_with_other_settings_is_refused(tmp_path):
    def refusal(file, url):
        env = environment(PLIMSOLL_ACCESS_KEY=ACCESS, PLIMSOLL_SECRET_KEY=SECRET)
        done = subprocess.run([GATEWAY, "run", file, "--follow", url, "--listen", "127.0.0.1:0"], env=env,
                              capture_output=True, text=True)
        assert done.returncode == 2, done.stderr
        return done.stderr

    with object_store() as store:
        file = settings(tmp_path / "a", store, durability="local")
        assert "needs [backup] with to" in refusal(file, "s3://other/place")
        text = open(file).read()
        open(file, "w").write(text.replace('lease = "2s"', ""))
        assert "needs backup.lease" in refusal(file, place(store))
        assert not (tmp_path / "a" / "catalog").exists()


def test_a_leader_whose_standby_leads_neither_writes_nor_reads(tmp_path):
    with object_store() as store:
        old = gateway(settings(tmp_path / "old", store, durability="local"))
        s3 = client(old)
        s3.create_bucket(Bucket="bucket")
        file = settings(tmp_path / "new", store, durability="local")
        with standby(file, store) as server:
            has_everything(old, file)
            old.process.send_signal(signal.SIGSTOP)
            wait(lambda: serves(server), "the standby leads")
            client(server).put_object(Bucket="bucket", Key="last", Body=b"new")
            old.process.send_signal(signal.SIGCONT)
            for call in [lambda: s3.put_object(Bucket="bucket", Key="last", Body=b"late"),
                         lambda: s3.get_object(Bucket="bucket", Key="last"), lambda: s3.list_buckets()]:
                with pytest.raises((ClientError, BotoCoreError)) as error:
                    call()
                response = getattr(error.value, "response", None)
                assert response is None or response["ResponseMetadata"]["HTTPStatusCode"] == 503, error.value
            assert body(client(server), "last") == b"new"
            assert old.process.wait() == 3, "a process that does not lead any more ends"


def test_tiers_never_know_a_later_state_than_a_standby(tmp_path):
    """The gateway that led recorded in the tiers a position of the catalog that the backup did not have, so a standby was
    taken for an old copy."""
    with object_store() as store:
        files = [settings(tmp_path / name, store, durability="local") for name in ["leader", "standby"]]
        for file in files:
            text = open(file).read()
            open(file, "w").write(text.replace('every = "1s"', 'every = "1h"'))
        leader = gateway(files[0])
        client(leader).create_bucket(Bucket="bucket")
        with standby(files[1], store) as server:
            # Before it records its position, the gateway ships what the position stands for.
            has_everything(leader, files[1])
            lose(leader)
            wait(lambda: serves(server), "the standby leads")
            assert status(files[1])["owns_tiers"]


def test_acknowledged_writes_that_were_not_shipped_come_back(tmp_path):
    """They stayed in `replaced-...`, which no command could read, and the log said that it can be deleted."""
    with object_store() as store:
        files = [settings(tmp_path / name, store, durability="local") for name in ["leader", "standby"]]
        for file in files:
            text = open(file).read()
            open(file, "w").write(text.replace('every = "1s"', 'every = "1h"'))
        leader = gateway(files[0])
        s3 = client(leader)
        s3.create_bucket(Bucket="bucket")
        s3.put_object(Bucket="bucket", Key="before", Body=b"1")
        s3.put_object(Bucket="bucket", Key="deleted-later", Body=b"1")
        with standby(files[1], store) as server:
            has_everything(leader, files[1])
            bodies = {"small": b"s" * 100, "large": b"l" * 300_000, "both": b"old"}
            for key, content in bodies.items():
                s3.put_object(Bucket="bucket", Key=key, Body=content)
            bodies["parts"] = os.urandom(6 << 20)
            upload = {"Bucket": "bucket", "Key": "parts"}
            upload["UploadId"] = s3.create_multipart_upload(**upload)["UploadId"]
            parts = [{"PartNumber": number, "ETag": s3.upload_part(**upload, PartNumber=number, Body=content)["ETag"]}
                     for number, content in ((1, bodies["parts"][:5 << 20]), (2, bodies["parts"][5 << 20:]))]
            etag = s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts})["ETag"]
            s3.delete_object(Bucket="bucket", Key="before")
            lose(leader)
            wait(lambda: serves(server), "the standby leads")
            new = client(server)
            if body(new, "small") is not None:
                pytest.skip("the old leader has shipped everything before it was lost")
            new.put_object(Bucket="bucket", Key="both", Body=b"new")
            new.delete_object(Bucket="bucket", Key="deleted-later")
            with standby(files[0], store):
                replaced = lambda: list((tmp_path / "leader" / "catalog").glob("replaced-*/SHIPPED"))
                wait(replaced, "the old log is replaced")
                directory = str(replaced()[0].parent)
                shown = command("unshipped", files[1], "--from", directory)
                assert shown.startswith("3 acknowledged writes were not shipped; --apply brings them back\n"), shown
                assert "write      bucket/large\n" in shown and "superseded bucket/both\n" in shown, shown
                assert body(new, "small") is None
                shown = command("unshipped", files[1], "--from", directory, "--apply")
                assert shown.startswith("3 of 3 acknowledged writes that were not shipped are back\n"), shown
            expected = {**bodies, "both": b"new", "deleted-later": None, "before": b"1"}
            assert {key: body(new, key) for key in expected} == expected
            head = new.head_object(Bucket="bucket", Key="parts", PartNumber=2)
            assert (head["ETag"], head["PartsCount"], head["ContentLength"]) == (etag, 2, 1 << 20), head
            assert command("unshipped", files[1], "--from", directory).startswith("0 acknowledged writes")
            assert "not a directory `replaced-" in command("unshipped", files[1], "--from", str(tmp_path), code=2)
