"""What `plimsoll-gateway` keeps after it was deleted, and `undelete`."""
import datetime
import os
import re
import shlex
import subprocess
import time

import pytest

from support import GATEWAY
from test_tiers import BLOB, client, files, rule, run, settings, wait

pytestmark = pytest.mark.skipif(not os.path.exists(GATEWAY), reason="plimsoll-gateway is not built")


def test_what_was_deleted_is_kept_and_comes_back(tmp_path):
    path = settings(tmp_path, retain="1h", moves=rule(when="suffix = 'moved'"))
    bodies = {key: bytes([number]) * BLOB for number, key in enumerate(["deleted", "replaced", "is-moved"])}
    bodies["small"] = b"in the catalog"
    with run(path) as server:
        s3 = client(server)
        s3.create_bucket(Bucket="bucket")
        for key, body in bodies.items():
            s3.put_object(Bucket="bucket", Key=key, Body=body)
        wait(lambda: len(files(tmp_path, "cold")) == 1, "the object is not moved")
        # The time has the precision of a millisecond, and the next changes are later.
        at = time.time()
        wait(lambda: time.time() > at + 0.002, "the clock stands still")
        at = datetime.datetime.fromtimestamp(at + 0.001, datetime.timezone.utc).isoformat(timespec="milliseconds")
        s3.put_object(Bucket="bucket", Key="replaced", Body=b"new")
        for key in ["deleted", "small", "is-moved"]:
            s3.delete_object(Bucket="bucket", Key=key)
    undelete = lambda *more: subprocess.run([GATEWAY, "undelete", path, "--bucket", "bucket", "--at", at, *more],
                                            capture_output=True, text=True)
    assert undelete("--dry-run").stdout == f"4 objects with {3 * BLOB + 14} bytes can be brought back\n"
    assert undelete("--prefix", "small").stdout == "1 objects with 14 bytes brought back\n"
    assert undelete().stdout == f"3 objects with {3 * BLOB} bytes brought back\n"
    assert undelete().stdout == "0 objects with 0 bytes brought back\n"
    with run(path) as server:
        for key, body in bodies.items():
            assert client(server).get_object(Bucket="bucket", Key=key)["Body"].read() == body, key
    too_old = subprocess.run([GATEWAY, "undelete", path, "--bucket", "bucket", "--at", "2h"], capture_output=True, text=True)
    assert too_old.returncode == 2 and "kept for 1h" in too_old.stderr, too_old
    early = subprocess.run([GATEWAY, "sweep", path, "--older-than", "5m"], capture_output=True, text=True)
    assert early.returncode == 2 and "use at least 1h" in early.stderr, early


def test_the_search_for_a_deleted_object_names_the_command_that_brings_it_back(tmp_path):
    path = settings(tmp_path, retain="1h")
    with run(path) as server:
        s3 = client(server)
        s3.create_bucket(Bucket="bucket")
        s3.put_object(Bucket="bucket", Key="a b", Body=b"first")
        # The time has the precision of a millisecond, and the deletion is later.
        at = time.time()
        wait(lambda: time.time() > at + 0.002, "the clock stands still")
        s3.delete_object(Bucket="bucket", Key="a b")
        where = lambda key: subprocess.run([GATEWAY, "where", path, "--object", f"bucket/{key}"], capture_output=True, text=True)
        found = where("a b")
        assert found.returncode == 1 and "It was deleted after 20" in found.stderr, found
        command = re.search("`plimsoll-gateway (undelete .*)`", found.stderr)[1]
        done = subprocess.run([GATEWAY, *shlex.split(command)], capture_output=True, text=True)
        assert done.stdout == "1 objects with 5 bytes brought back\n", done
        assert s3.get_object(Bucket="bucket", Key="a b")["Body"].read() == b"first"
        never = where("never")
        assert never.returncode == 1 and "undelete" not in never.stderr, never


def test_without_deletes_nothing_is_moved_and_nothing_deleted(tmp_path):
    path = settings(tmp_path, moves=rule())
    with run(path, "--no-deletes") as server:
        s3 = client(server)
        s3.create_bucket(Bucket="bucket")
        s3.put_object(Bucket="bucket", Key="key", Body=bytes(BLOB))
        s3.put_object(Bucket="bucket", Key="key", Body=bytes(BLOB))
        assert (len(files(tmp_path, "hot")), len(files(tmp_path, "cold"))) == (2, 0)
    with run(path):
        wait(lambda: (len(files(tmp_path, "hot")), len(files(tmp_path, "cold"))) == (0, 1), "nothing is moved")
