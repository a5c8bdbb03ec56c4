"""`[backup] durability = "tier"`: acknowledged writes outlive the machine, and two gateways never lead at a time."""
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import threading

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from support import ACCESS, GATEWAY, SECRET, Server, environment
from test_backup import client, command, state
from test_tiers import wait

pytestmark = pytest.mark.skipif(not os.path.exists(GATEWAY), reason="plimsoll-gateway is not built")

# Number of machines that are lost; the bench uses more.
LOSSES = int(os.environ.get("PLIMSOLL_LOSSES", "3"))


def settings(directory, store, more="", lease="2s", durability="tier"):
    """Writes the settings of one machine over the buckets `hot` and `place` of a store; without a lease if it is None."""
    lease = "" if lease is None else f'lease = "{lease}"'
    directory.mkdir(exist_ok=True)
    path = directory / "gateway.toml"
    path.write_text(f"""
[catalog]
url = "dir:{directory}/catalog"
[tier.hot]
url = "s3://hot?endpoint={store.url}"
[write]
tier = "hot"
inline = "20 KiB"
[backup]
to = "s3://place/gateway?endpoint={store.url}"
every = "1s"
durability = "{durability}"
{lease}
{more}
""")
    return str(path)


@contextlib.contextmanager
def object_store():
    with Server("--quiet") as store:
        for bucket in ["hot", "place"]:
            client(store).create_bucket(Bucket=bucket)
        yield store


def gateway(file, *more):
    return Server(*more, command=(GATEWAY, "run", file))


def lose(server):
    """Ends a gateway as the loss of its machine does."""
    server.process.kill()
    server.process.wait()


def refused(file):
    env = environment(PLIMSOLL_ACCESS_KEY=ACCESS, PLIMSOLL_SECRET_KEY=SECRET)
    done = subprocess.run([GATEWAY, "run", file, "--listen", "127.0.0.1:0"], env=env, capture_output=True, text=True,
                          timeout=300)
    return done.returncode, done.stderr


class Writers:
    """Clients that write until their gateway is lost. Each has its own keys and overwrites them."""

    def __init__(self, url, seed, state):
        self.state, self.threads, self.url = state, [], url
        for number in range(4):
            thread = threading.Thread(target=self.run, args=(number, random.Random(f"{seed}/{number}")))
            thread.start()
            self.threads.append(thread)

    def run(self, number, choose):
        s3 = boto3.client("s3", endpoint_url=self.url, region_name="us-east-1", aws_access_key_id=ACCESS,
                          aws_secret_access_key=SECRET,
                          config=Config(s3={"addressing_style": "path"}, retries={"total_max_attempts": 1}))
        while True:
            key = f"{number}/{choose.randrange(20)}"
            body = None if choose.random() < 0.2 else choose.randbytes(choose.choice([10, 3000, 60_000]))
            # Until it is acknowledged, the object may be in either state.
            self.state[key] = [*self.state.get(key, [None])[-1:], body]
            try:
                if body is None:
                    s3.delete_object(Bucket="bucket", Key=key)
                else:
                    s3.put_object(Bucket="bucket", Key=key, Body=body)
            except (ClientError, BotoCoreError):
                return
            self.state[key] = [body]

    def join(self):
        for thread in self.threads:
            thread.join()


def body(s3, key):
    try:
        return s3.get_object(Bucket="bucket", Key=key)["Body"].read()
    except ClientError as error:
        assert error.response["Error"]["Code"] == "NoSuchKey", error
        return None


def check(s3, state):
    for key, bodies in state.items():
        found = body(s3, key)
        assert found in bodies, f"{key}: an acknowledged write is lost"
        state[key] = [found]


def test_no_acknowledged_write_is_lost_with_the_machine(tmp_path):
    state = {}
    with object_store() as store:
        server = gateway(settings(tmp_path / "machine-0", store))
        client(server).create_bucket(Bucket="bucket")
        for loss in range(LOSSES):
            writers = Writers(server.url, loss, state)
            wait(lambda: sum(len(bodies) == 1 for bodies in state.values()) >= 40, "the clients write")
            lose(server)
            writers.join()
            shutil.rmtree(tmp_path / f"machine-{loss}")
            server = gateway(settings(tmp_path / f"machine-{loss + 1}", store))
            check(client(server), state)
        with server:
            pass


def test_the_process_after_a_crash_does_not_wait(tmp_path):
    with object_store() as store:
        file = settings(tmp_path / "machine", store, lease="10m")
        server = gateway(file)
        client(server).create_bucket(Bucket="bucket")
        client(server).put_object(Bucket="bucket", Key="k", Body=b"1")
        lose(server)
        # It would wait for ten minutes if the directory did not prove that the process before has ended.
        with gateway(file) as server:
            assert body(client(server), "k") == b"1"
        # A clean end lets nobody wait, on any machine.
        with gateway(settings(tmp_path / "other", store)) as server:
            assert body(client(server), "k") == b"1"
            code, text = refused(file)
            assert code == 3 and "another gateway leads" in text, (code, text)
            # Nor may a command of an administrator change the old directory.
            assert "another gateway leads" in command("backup", file, "--done", "2h", code=3)


def test_a_stopped_leader_neither_writes_nor_reads_after_another_one_began(tmp_path):
    with object_store() as store:
        old = gateway(settings(tmp_path / "old", store))
        s3 = client(old)
        s3.create_bucket(Bucket="bucket")
        s3.put_object(Bucket="bucket", Key="k", Body=b"old")
        old.process.send_signal(signal.SIGSTOP)
        with gateway(settings(tmp_path / "new", store)) as new:
            assert body(client(new), "k") == b"old"
            client(new).put_object(Bucket="bucket", Key="k", Body=b"new")
            old.process.send_signal(signal.SIGCONT)
            for call in [lambda: s3.put_object(Bucket="bucket", Key="k", Body=b"late"),
                         lambda: s3.get_object(Bucket="bucket", Key="k"), lambda: s3.list_objects_v2(Bucket="bucket"),
                         lambda: s3.delete_object(Bucket="bucket", Key="k"), s3.list_buckets,
                         lambda: s3.head_bucket(Bucket="bucket"), lambda: s3.create_bucket(Bucket="bucket"),
                         lambda: s3.put_object(Bucket="bucket", Key="n", Body=b"late", IfNoneMatch="*")]:
                # It refuses requests, or has ended.
                with pytest.raises((ClientError, BotoCoreError)) as error:
                    call()
                response = getattr(error.value, "response", None)
                assert response is None or response["ResponseMetadata"]["HTTPStatusCode"] == 503, error.value
            assert body(client(new), "k") == b"new" and body(client(new), "n") is None
            assert old.process.wait() == 3, "a process that does not lead any more ends"
        # Its directory is brought up to date when it begins to lead again.
        with gateway(settings(tmp_path / "old", store)) as old:
            assert body(client(old), "k") == b"new"


def test_a_place_that_does_not_answer_delays_writes_and_then_reads(tmp_path):
    with object_store() as store:
        with gateway(settings(tmp_path / "machine", store), "--metrics-listen", "127.0.0.1:0") as server:
            s3 = client(server)
            s3.create_bucket(Bucket="bucket")
            s3.put_object(Bucket="bucket", Key="k", Body=b"1")
            store.process.send_signal(signal.SIGSTOP)
            written = threading.Thread(target=lambda: s3.put_object(Bucket="bucket", Key="late", Body=b"2"))
            written.start()

            def is_refused():
                try:
                    client(server).get_object(Bucket="bucket", Key="k")["Body"].read()
                except ClientError as error:
                    return error.response["ResponseMetadata"]["HTTPStatusCode"] == 503
                return False

            wait(is_refused, "nothing is read when another gateway may lead")
            store.process.send_signal(signal.SIGCONT)
            written.join()
            wait(lambda: not is_refused(), "it leads again")
            assert body(s3, "late") == b"2" and body(s3, "k") == b"1"


def test_a_place_that_does_not_answer_does_not_prevent_the_end(tmp_path):
    """A gateway waited for its place for ever after SIGTERM."""
    with object_store() as store:
        server = gateway(settings(tmp_path / "machine", store))
        client(server).create_bucket(Bucket="bucket")
        client(server).put_object(Bucket="bucket", Key="k", Body=b"1")
        store.process.send_signal(signal.SIGSTOP)
        server.process.terminate()
        assert server.process.wait() in (0, 3)
        store.process.send_signal(signal.SIGCONT)
        with gateway(settings(tmp_path / "machine", store)) as server:
            assert body(client(server), "k") == b"1"


def test_a_catalog_begins_and_ends_to_use_a_journal(tmp_path):
    with object_store() as store:
        machine = tmp_path / "machine"
        with gateway(settings(machine, store, durability="local", lease=None)) as server:
            s3 = client(server)
            s3.create_bucket(Bucket="bucket")
            s3.put_object(Bucket="bucket", Key="a", Body=b"1")
            s3.put_object(Bucket="bucket", Key="large", Body=bytes(100_000))
        file = settings(machine, store)
        server = gateway(file)
        client(server).put_object(Bucket="bucket", Key="b", Body=b"2")
        expected = state(client(server))
        lose(server)
        # Without [backup], the directory alone may be older.
        text = open(file).read()
        open(file, "w").write(text[:text.index("[backup]")])
        code, error = refused(file)
        assert code == 3 and 'durability = "local"' in error, error
        with gateway(settings(machine, store, durability="local", lease=None)) as server:
            assert state(client(server)) == expected
        assert not (machine / "catalog" / "WRITERS").exists()


def test_settings_that_could_lose_writes_are_refused(tmp_path):
    with object_store() as store:
        file = settings(tmp_path / "a", store, more=f'[tier.disk]\nurl = "file://{tmp_path}/disk"')
        code, error = refused(file)
        assert code == 2 and "tier disk is a directory" in error, error
        file = settings(tmp_path / "a", store)
        for more in [["--durability", "interval=50ms"], ["--restored"]]:
            env = environment(PLIMSOLL_ACCESS_KEY=ACCESS, PLIMSOLL_SECRET_KEY=SECRET)
            done = subprocess.run([GATEWAY, "run", file, "--listen", "127.0.0.1:0", *more], env=env,
                                  capture_output=True, text=True, timeout=60)
            assert done.returncode == 2 and more[0] in done.stderr, done.stderr
        assert not (tmp_path / "a" / "catalog").exists()


def test_a_restore_has_what_only_the_journal_has(tmp_path):
    with object_store() as store:
        # The backup of this hour has not begun its next piece when the machine is lost.
        file = settings(tmp_path / "machine", store, more='verify = "never"')
        text = open(file).read()
        open(file, "w").write(text.replace('every = "1s"', 'every = "1h"'))
        server = gateway(file)
        s3 = client(server)
        s3.create_bucket(Bucket="bucket")
        for number in range(30):
            s3.put_object(Bucket="bucket", Key=f"key-{number}", Body=str(number).encode())
        expected = state(s3)
        lose(server)
        found = json.loads(command("restore", settings(tmp_path / "copy", store), "--json"))
        assert found["segments"] > 0
        copy = settings(tmp_path / "copy", store, durability="local", lease=None)
        with gateway(copy, "--restored") as server:
            assert state(client(server)) == expected


def test_a_plan_names_the_price_of_a_journal(tmp_path):
    listing = tmp_path / "listing.csv"
    listing.write_text("Key,Size,LastModified\na,100,2026-01-01T00:00:00Z\n")

    def journal(*lines):
        file = tmp_path / "gateway.toml"
        file.write_text("\n".join(['[catalog]', f'url = "dir:{tmp_path}/catalog"', '[tier.hot]', 'url = "s3://hot"',
                                   'offer = "aws-s3@us-east-1"', '[write]', 'tier = "hot"', '[backup]', 'to = "s3://place"',
                                   'offer = "aws-s3@us-east-1"', *lines]))
        return json.loads(command("plan", str(file), "--listing", str(listing), "--json"))["journal"]

    found = {one["writes_per_s"]: one for one in journal('durability = "tier"')}
    # 0.3 a second for 730 hours, at $5 per million.
    assert float(found[0]["month_usd"]) == pytest.approx(0.3 * 730 * 3600 * 5 / 1e6)
    # One for each write; and one after the other, each of which takes 5 ms.
    assert float(found[100]["month_usd"]) == pytest.approx(100 * 730 * 3600 * 5 / 1e6)
    assert found[1000]["entries_per_s"] == found[10_000]["entries_per_s"] == 200
    # Without groups, the entries only extend the lease.
    assert [one["writes_per_s"] for one in journal('lease = "10s"')] == [0]
    assert journal() == []
