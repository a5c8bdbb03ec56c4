"""`[backup] key_file`: a backup, a journal and a standby whose objects are age files, compared with `pyrage`."""
import os
import shutil

import pyrage
import pytest

from support import GATEWAY
from test_backup import client, command, gateway, restore, settings, state, wait_for_backup
from test_journal import lose, object_store, refused
from test_journal import settings as with_journal
from test_standby import has_everything, serves, standby
from test_tiers import wait

pytestmark = pytest.mark.skipif(not os.path.exists(GATEWAY), reason="plimsoll-gateway is not built")

MARKER = "plimsoll-backup.json"


@pytest.fixture
def identity(tmp_path):
    return write_key(tmp_path / "keys.txt")


def write_key(path):
    """Writes a file of keys as `age-keygen` does, and returns its key."""
    identity = pyrage.x25519.Identity.generate()
    path.write_text(f"# created: now\n# public key: {identity.to_public()}\n{identity}\n")
    path.chmod(0o600)
    return identity


def key_file(directory, name="keys.txt"):
    return f'key_file = "{directory / name}"'


def objects(root):
    """Yields the path and the content of every object of a backup in a directory, without the marker."""
    for directory, _, names in os.walk(root):
        for name in names:
            path = os.path.join(directory, name)
            if name != MARKER:
                yield path, open(path, "rb").read()


def test_every_object_is_an_age_file_and_the_key_restores_everything(tmp_path, identity):
    file = settings(tmp_path, f"file://{tmp_path}/backup", more=key_file(tmp_path))
    large = os.urandom(9_000_000)
    with gateway(file) as server:
        s3 = client(server)
        s3.create_bucket(Bucket="plain")
        for number in range(20):
            s3.put_object(Bucket="plain", Key=f"name-{number}", Body=b"content " * 100)
        s3.put_object(Bucket="plain", Key="large", Body=large)
        expected = state(s3)
    kinds = set()
    for path, sealed in objects(tmp_path / "backup"):
        assert sealed.startswith(b"age-encryption.org/v1\n"), path
        opened = pyrage.decrypt(sealed, [identity])
        kind = os.path.relpath(path, tmp_path / "backup").split(os.sep)[0]
        assert kind != "log" or opened.startswith(b"PLBK"), path
        assert kind != "blobs" or opened, path
        kinds.add(kind)
    assert kinds >= {"log", "index", "blobs"}, kinds
    assert str(identity) not in (tmp_path / "backup" / MARKER).read_text()

    for name in ("catalog", "hot", "cold"):
        shutil.rmtree(tmp_path / name, ignore_errors=True)
    assert restore(file)["missing_bodies"] == 0
    with gateway(file, "--restored") as server:
        assert state(client(server)) == expected
    # Whoever has the key can encrypt everything again, also for others.
    other = write_key(tmp_path / "other.txt")
    for path, sealed in objects(tmp_path / "backup"):
        again = pyrage.encrypt(pyrage.decrypt(sealed, [identity]), [other.to_public(), identity.to_public()])
        open(path, "wb").write(again)
    for name in ("keys.txt", "other.txt"):
        words = ["--from", f"file://{tmp_path}/backup", "--key-file", str(tmp_path / name)]
        assert command("verify-backup", *words).startswith("every state from ")


def test_wrong_keys_have_a_clear_message_and_write_nothing(tmp_path, identity):
    to = f"file://{tmp_path}/backup"
    file = settings(tmp_path, to, more=key_file(tmp_path))
    with gateway(file) as server:
        client(server).create_bucket(Bucket="plain")
        wait_for_backup(tmp_path / "backup")
    shutil.rmtree(tmp_path / "catalog")
    write_key(tmp_path / "other.txt")
    plain = settings(tmp_path, to, name="plain.toml")
    assert "the backup is encrypted; name the file" in command("restore", plain, code=3)
    other = ["--key-file", str(tmp_path / "other.txt")]
    for words in (["restore", file, *other], ["verify-backup", file, *other]):
        assert "encrypted for another key" in command(*words, code=1 if words[0] == "verify-backup" else 3)
    (tmp_path / "keys.txt").chmod(0o644)
    shown = command("restore", file, code=2)
    assert "backup.key_file" in shown and "chmod 600" in shown and str(identity) not in shown
    (tmp_path / "keys.txt").chmod(0o600)
    (tmp_path / "public.txt").write_text(str(identity.to_public()))
    (tmp_path / "public.txt").chmod(0o600)
    shown = command("restore", file, "--key-file", str(tmp_path / "public.txt"), code=2)
    assert "--key-file" in shown and "the file needs the secret one" in shown
    assert "No such file" in command("restore", file, "--key-file", str(tmp_path / "none"), code=2)
    code, shown = refused(settings(tmp_path, to, more=key_file(tmp_path, "none"), name="none.toml"))
    assert code == 2 and "backup.key_file" in shown and "No such file" in shown
    assert not os.path.exists(tmp_path / "catalog")
    # Encryption begins in a new place, and the gateway serves meanwhile.
    second = tmp_path / "second"
    second.mkdir()
    with gateway(settings(second, f"file://{second}/backup")) as server:
        client(server).create_bucket(Bucket="plain")
    later = settings(second, f"file://{second}/backup", more=key_file(tmp_path))
    with gateway(later) as server:
        wait(lambda: "is not encrypted" in command("status", later), "the problem is shown")
        client(server).put_object(Bucket="plain", Key="k", Body=b"1")


def test_a_journal_and_a_standby_are_encrypted_too(tmp_path, identity):
    more = key_file(tmp_path)
    with object_store() as store:
        leader = gateway(with_journal(tmp_path / "leader", store, more=more))
        s3 = client(leader)
        s3.create_bucket(Bucket="bucket")
        file = with_journal(tmp_path / "standby", store, more=more)
        with standby(file, store) as server:
            for number in range(30):
                s3.put_object(Bucket="bucket", Key=f"key-{number}", Body=b"content " * number * 50)
            has_everything(leader, file)
            expected = state(s3)
            lose(leader)
            shutil.rmtree(tmp_path / "leader")
            wait(lambda: serves(server), "the standby leads")
            client(server).delete_object(Bucket="bucket", Key="probe")
            found = {key: value for key, value in state(client(server)).items() if "probe" not in key}
            assert found == expected
        place = client(store)
        for page in place.get_paginator("list_objects_v2").paginate(Bucket="place"):
            for one in page["Contents"]:
                sealed = place.get_object(Bucket="place", Key=one["Key"])["Body"].read()
                if not one["Key"].endswith(MARKER):
                    assert pyrage.decrypt(sealed, [identity]) is not None
        code, shown = refused(with_journal(tmp_path / "third", store))
        assert code == 3 and "the backup is encrypted" in shown, shown
