"""`catalog migrate`: a catalog moves from a directory to PostgreSQL and back while clients write."""
import json
import os
import subprocess
import threading
import time

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from postgres import Postgres, programs
from support import ACCESS, GATEWAY, SECRET, environment
from test_backup import at, command, state
from test_encryption import write_key
from test_tiers import client, run, settings, wait

pytestmark = [pytest.mark.skipif(not os.path.exists(GATEWAY), reason="plimsoll-gateway is not built"),
              pytest.mark.skipif(not programs(), reason="PostgreSQL is not installed")]


def with_catalog(directory, file, url, name):
    """Writes the settings of `file` with another place of the catalog. Returns the name of the file."""
    path = directory / name
    path.write_text(open(file).read().replace(f"dir:{directory}/catalog", url))
    return str(path)


def migrate(file, to, *more, code=0):
    env = environment(PLIMSOLL_ACCESS_KEY=ACCESS, PLIMSOLL_SECRET_KEY=SECRET)
    done = subprocess.run([GATEWAY, "catalog", "migrate", file, "--to", to, *more], capture_output=True, text=True,
                          env=env, timeout=300)
    assert done.returncode == code, (done.stdout, done.stderr)
    return done.stdout if code == 0 else done.stderr


def refused(file):
    env = environment(PLIMSOLL_ACCESS_KEY=ACCESS, PLIMSOLL_SECRET_KEY=SECRET)
    done = subprocess.run([GATEWAY, "run", file, "--listen", "127.0.0.1:0"], capture_output=True, text=True, env=env,
                          timeout=300)
    assert done.returncode == 3, done
    return done.stderr


class Writer:
    """A client that writes until `stop`, also while the gateway starts again."""

    def __init__(self, server, name):
        self.s3, self.name, self.written, self.count, self.failed, self.stopped = client(server), name, {}, 0, 0, False
        self.thread = threading.Thread(target=self.write)
        self.thread.start()

    def write(self):
        number = 0
        while not self.stopped:
            key, body = f"{self.name}/{number % 100}", os.urandom(100 if number % 3 else 30_000)
            try:
                self.s3.put_object(Bucket="tiers", Key=key, Body=body)
                self.written[key] = body
                number += 1
                self.count = number
            except (ClientError, BotoCoreError):
                # It may be written nevertheless.
                self.written.pop(key, None)
                self.failed += 1

    def stop(self):
        self.stopped = True
        self.thread.join()


def check(s3, writer):
    for key, body in writer.written.items():
        assert s3.get_object(Bucket="tiers", Key=key)["Body"].read() == body, key


def test_a_catalog_moves_to_a_database_and_back_under_writes(tmp_path):
    file = settings(tmp_path)
    with Postgres() as database:
        shared = with_catalog(tmp_path, file, database.url, "shared.toml")
        with run(file) as server:
            s3 = client(server)
            s3.create_bucket(Bucket="tiers")
            s3.put_bucket_versioning(Bucket="tiers", VersioningConfiguration={"Status": "Enabled"})
            for number in range(300):
                s3.put_object(Bucket="tiers", Key=f"first/{number % 200}", Body=f"{number}".encode() * 100)
            before = state(s3)
            writer = Writer(server, "second")
            wait(lambda: len(writer.written) > 20, "the client writes")
            shown = migrate(file, shared)
            assert shown.splitlines()[-4].startswith("moved      the catalog is in the database in "), shown
            count = writer.count
            wait(lambda: writer.count > count + 1, "the gateway serves again")
            led = lambda: json.loads(command("status", shared, "--json"))["leader"] is not None
            wait(led, "the gateway leads: sessions of the directory are over")
            writer.stop()
            check(s3, writer)
            found = {key: value for key, value in state(s3).items() if not key[1].startswith("second/")}
            assert found == before
            assert database.query("SELECT count(*) > 100 FROM plimsoll_catalog") == ["t"]
            assert "was moved to the database in" in refused(file)
            with run(shared) as second:
                check(client(second), writer)

        # Back to a directory, beside two gateways.
        back = with_catalog(tmp_path, file, f"dir:{tmp_path}/back", "back.toml")
        one, two = run(shared), run(shared)
        writers = [Writer(one, "third"), Writer(two, "fourth")]
        wait(lambda: all(len(writer.written) > 20 for writer in writers), "the clients write")
        moved = json.loads(migrate(shared, back, "--json"))
        assert moved["rows"] > 300, moved
        for writer, server in zip(writers, (one, two)):
            wait(lambda: writer.failed > 0, "old gateways do not write")
            writer.stop()
            with pytest.raises((ClientError, BotoCoreError)) as error:
                client(server).get_object(Bucket="tiers", Key="first/1")
            assert error.value.response["ResponseMetadata"]["HTTPStatusCode"] == 503
            server.process.kill()
            server.process.wait()
        assert "was moved to" in refused(shared)
        with run(back) as server:
            s3 = client(server)
            for writer in writers:
                check(s3, writer)
            found = {key: value for key, value in state(s3).items() if key[1].startswith("first/")}
            assert found == before


def test_what_cannot_be_moved_is_named_and_nothing_changes(tmp_path):
    file = settings(tmp_path)
    with Postgres() as database:
        shared = with_catalog(tmp_path, file, database.url, "shared.toml")
        other = tmp_path / "other.toml"
        other.write_text(open(shared).read().replace(f"{tmp_path}/cold", f"{tmp_path}/colder"))
        assert "there is no catalog" in migrate(file, shared, code=2)
        with run(file) as server:
            client(server).create_bucket(Bucket="tiers")
            assert "is the same as now" in migrate(file, file, code=2)
            assert "tier cold must have the same URL" in migrate(file, str(other), code=2)
            assert "No such file" in migrate(file, str(tmp_path / "none.toml"), code=2)
            with Postgres() as second:
                gone = with_catalog(tmp_path, file, second.url, "gone.toml")
            assert "does not answer" in migrate(file, gone, code=3)
            client(server).put_object(Bucket="tiers", Key="k", Body=b"1")
        # Without a running gateway.
        assert "start the gateway with" in migrate(file, shared)
        assert "was moved to" in migrate(file, shared, code=3)
        with run(shared) as server:
            assert client(server).get_object(Bucket="tiers", Key="k")["Body"].read() == b"1"


def test_backups_of_a_database_are_restored_into_a_database_and_a_directory(tmp_path, monkeypatch):
    file = settings(tmp_path, retain="7d")
    write_key(tmp_path / "keys.txt")
    keys = ["--key-file", str(tmp_path / "keys.txt")]
    url = f"file://{tmp_path}/backup"
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    states = []
    with Postgres() as database:
        shared = with_catalog(tmp_path, file, database.url, "shared.toml")
        with run(shared) as server:
            s3 = client(server)
            s3.create_bucket(Bucket="tiers")
            for round in range(3):
                for number in range(50):
                    s3.put_object(Bucket="tiers", Key=f"k{number * (round + 1)}", Body=f"{round}".encode() * number * 200)
                shown = command("backup", shared, "--to", url, *keys)
                assert shown.startswith(f"the backup in {url} is complete: "), shown
                states.append((time.time(), state(s3)))
            command("backup", shared, "--to", str(tmp_path / "copy"))
            assert "is encrypted" in command("backup", shared, "--to", url, code=3)
            assert command("verify-backup", "--from", url, *keys).startswith("every state from ")
        assert "there is a catalog in the database already" in command("restore", shared, "--from", url, *keys, code=3)
    with Postgres() as second:
        other = with_catalog(tmp_path, file, second.url, "second.toml")
        seconds, expected = states[1]
        found = json.loads(command("restore", other, "--from", url, *keys, "--at", at(seconds), "--json"))
        assert found["at_ms"] <= seconds * 1000 and found["missing_bodies"] == 0, found
        with run(other, "--restored") as server:
            assert state(client(server)) == expected
    for name, directory in [("third", "third"), ("copied", "fourth")]:
        into = with_catalog(tmp_path, file, f"dir:{tmp_path}/{directory}", f"{name}.toml")
        command("restore", into, "--from", *([url, *keys] if name == "third" else [str(tmp_path / "copy")]))
        with run(into, "--restored") as server:
            assert state(client(server)) == states[-1][1]
    assert os.listdir(tmp_path / "tmp") == []
