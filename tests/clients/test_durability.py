"""`plimsoll run durability`: finds what servers lose when the power fails, and accuses no server that loses nothing."""
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import boto3
import postgres
import pytest

from support import ACCESS, GATEWAY, PLIMSOLL, SECRET, Server, environment, free_port

SERVER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "unsafe_server.py")

pytestmark = pytest.mark.skipif(
    "PLIMSOLL_REQUIRE_MOUNTS" not in os.environ and (os.geteuid() != 0 or not os.path.exists("/dev/fuse")),
    reason="this system does not allow mounts")


def command(*modes):
    return f"exec {sys.executable} {SERVER} {{dir}} {{port}} {' '.join(modes)}"


def check(server, *arguments, cuts=8, operations=40, clients=2):
    """Returns the exit code and the findings."""
    line = [PLIMSOLL, "run", "durability", "--server", server, "--cuts", cuts, "--operations", operations,
            "--clients", clients, "--json", *arguments]
    done = subprocess.run([str(part) for part in line], capture_output=True, text=True)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def violations(findings):
    """Returns the numbers of violations by their kind."""
    counts = {}
    for kind in findings["kinds"].values():
        for name, count in kind["violations"].items():
            counts[name] = counts.get(name, 0) + count
    return counts


@pytest.mark.parametrize("mode", ["safe", "whole-sync"])
@pytest.mark.parametrize("model", ["ext4", "posix"])
def test_a_server_that_syncs_everything_is_not_accused(model, mode):
    code, findings = check(command(mode), "--model", model)
    assert (code, violations(findings)) == (0, {}), findings["headline"]
    assert findings["acknowledged"] > 50 and not findings["not_starting"] and not findings["proofs"]


def test_a_server_without_syncs_loses_and_is_proven():
    code, findings = check(command("no-sync"))
    assert code == 1 and violations(findings)["lost"] > 10, findings["headline"]
    proof = next(proof for proof in findings["proofs"] if proof["violation"]["kind"] == "lost")
    assert proof["repeated"] == [3, 3] and len(proof["operations"]) == 1, proof
    assert any("rename of object-" in line for line in proof["lost"]), proof["lost"]


@pytest.mark.parametrize("model", ["ext4", "posix"])
def test_a_missing_sync_of_the_directory_is_found(model):
    code, findings = check(command("no-directory-sync"), "--model", model, "--no-proof", cuts=12)
    assert code == 1 and violations(findings), findings["headline"]


def test_an_overwrite_in_place_is_found():
    """A cut in the middle of it leaves neither the old nor the new object."""
    code, findings = check(command("in-place", "no-checksum"), "--no-proof", cuts=30, operations=20, clients=1)
    assert code == 1 and "damaged" in violations(findings), findings["headline"]


def test_a_deleted_object_that_returns_is_found():
    code, findings = check(command("forgets-deletes"), "--no-proof", cuts=3)
    assert code == 1 and set(violations(findings)) == {"back"}, findings["headline"]


def test_a_removal_that_gets_lost_is_proven():
    """Without what the disk writes back, the object gets lost with its removal. One client: each run finds the same."""
    code, findings = check(command("no-sync"), cuts=12, clients=1)
    assert code == 1 and violations(findings).get("back"), findings["headline"]
    proof = next(proof for proof in findings["proofs"] if proof["violation"]["kind"] == "back")
    assert proof["repeated"] == [3, 3] and (len(proof["operations"]), proof["written_back"]) == (2, 1), proof


def test_a_wrong_listing_is_found():
    code, findings = check(command("lies-in-listings"), "--no-proof", cuts=2)
    assert code == 1 and set(violations(findings)) == {"listing"}, findings["headline"]


def test_a_read_without_an_answer_accuses_no_other_key():
    """After the first such read, all later keys counted as unreadable."""
    code, findings = check(command("safe", "hangs-on-k2"), "--no-proof", cuts=1)
    assert code == 1 and [(one["key"], one["kind"]) for one in findings["violations"]] == [("c0/k2", "unreadable")]


def test_a_server_that_does_not_start_is_found():
    code, findings = check(command("journal"), "--no-proof", cuts=6, operations=10)
    assert code == 1 and findings["not_starting"], findings["headline"]
    assert "JSONDecodeError" in findings["not_starting"][0][1]


def test_an_error_of_a_sync_must_not_be_acknowledged():
    arguments = ["--fault", "eio", "--no-proof"]
    code, findings = check(command("ignores-errors"), *arguments, cuts=12)
    assert code == 1 and violations(findings), findings["headline"]
    code, findings = check(command("safe"), *arguments)
    assert (code, violations(findings)) == (0, {}), findings["headline"]


@pytest.mark.parametrize("fault", ["enospc", "slow-sync"])
def test_a_full_and_a_slow_disk_accuse_nobody(fault):
    code, findings = check(command("safe"), "--fault", fault, "--no-proof", cuts=3, operations=20)
    assert (code, violations(findings)) == (0, {}), findings["headline"]


def test_a_flipped_bit_must_not_be_served():
    arguments = ["--fault", "bit-flip", "--no-proof"]
    code, findings = check(command("no-checksum"), *arguments)
    assert code == 1 and set(violations(findings)) == {"damaged"}, findings["headline"]
    code, findings = check(command("safe"), *arguments)
    assert (code, violations(findings)) == (0, {}) and findings["flipped"][1] > 0, findings["headline"]


def test_the_same_seed_finds_the_same_again():
    first = check(command("no-sync"), "--no-proof", cuts=6, clients=1)[1]["violations"][0]["cut"]
    found = [check(command("no-sync"), "--no-proof", "--only", first, clients=1)[1] for _ in range(2)]
    keys = [[(one["key"], one["kind"], one["operation"]) for one in findings["violations"]] for findings in found]
    assert keys[0] == keys[1] and keys[0]


@pytest.mark.skipif(not postgres.programs(), reason="PostgreSQL is not installed")
def test_the_gateway_with_its_catalog_in_postgresql_loses_nothing(monkeypatch):
    monkeypatch.setenv("PATH", f"{os.path.dirname(GATEWAY)}:{os.environ['PATH']}")
    with tempfile.TemporaryDirectory() as temporary, monkeypatch.context() as patch:
        os.chmod(temporary, 0o755)
        patch.setenv("TMPDIR", temporary)
        code, findings = check("plimsoll-gateway-postgres", "--no-proof", cuts=2)
        assert not os.listdir(temporary), "its configuration was left there"
    assert (code, violations(findings)) == (0, {}) and findings["acknowledged"] > 10, findings["headline"]
    arguments = ["--ignore-syncs", "catalog/pg_wal", "--no-proof", "--until-violation"]
    code, findings = check("plimsoll-gateway-postgres", *arguments, cuts=12)
    assert code == 1, findings["headline"]


def test_the_gateway_loses_nothing():
    for model in ["ext4", "posix"]:
        server = f"exec {GATEWAY} run --data {{dir}} --listen {{address}}"
        code, findings = check(server, "--model", model, clients=4)
        assert (code, violations(findings)) == (0, {}), findings["headline"]
        assert findings["tags"] and findings["versions"]
        assert findings["kinds"]["version"]["due"] > 5 and findings["kinds"]["delete_version"]["due"] > 0


def test_the_answer_names_what_was_done_to_the_server():
    """It accused a server whose syncs Plimsoll itself had ignored."""
    code, findings = check(command("safe"), "--ignore-syncs", "object", "--no-proof", cuts=4)
    assert code == 1 and "python3 (syncs of 'object' ignored) did not keep" in findings["headline"].replace(
        os.path.basename(sys.executable), "python3")
    assert (findings["ignored_syncs"], findings["operations"], findings["clients"]) == ("object", 40, 2)


def test_lost_versions_are_found():
    server = f"exec {GATEWAY} run --data {{dir}} --listen {{address}}"
    code, findings = check(server, "--ignore-syncs", ".log", "--model", "posix", cuts=6)
    # A catalog that lost too much of its log does not start, so that its versions are unreadable.
    assert code == 1 and sum(findings["kinds"]["version"]["violations"].values()) > 0, findings["headline"]


def test_a_server_that_hangs_ends_the_work_not_the_check():
    code, findings = check(command("hangs"), "--no-proof", "--timeout", "1s", cuts=2, operations=100)
    assert (code, violations(findings)) == (0, {}), findings["headline"]
    assert findings["unanswered"] >= 2


def test_wrong_servers_are_explained():
    def error(server):
        done = subprocess.run([PLIMSOLL, "run", "durability", "--server", server, "--start-limit", "20s"],
                              capture_output=True, text=True)
        assert done.returncode == 2 and not done.stdout, (done.returncode, done.stderr)
        return done.stderr

    assert "neither a profile" in error("miniio")
    assert "command with {dir}" in error("minio server {dir}")
    assert "no such thing" in error("echo no such thing {dir} {port}; exit 3")
    assert "not-a-program" in error("not-a-program {dir} {port}")


MACHINE = """
import os, signal, socket, subprocess, sys, time
folder, port, lost = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
os.kill(int(open(folder + "/pid").read()), signal.SIGKILL)
objects = sorted(name for name in os.listdir(folder + "/data") if name.startswith("object-"))
for name in objects[:lost]:
    os.unlink(f"{folder}/data/{name}")
server = subprocess.Popen([sys.executable, SERVER, folder + "/data", str(port)], start_new_session=True,
                          stderr=subprocess.DEVNULL)
open(folder + "/pid", "w").write(str(server.pid))
""".replace("SERVER", repr(SERVER))


@pytest.mark.parametrize("lost", [0, 3])
def test_a_real_machine_is_cut_by_the_users_command(lost, tmp_path):
    port = free_port()
    (tmp_path / "data").mkdir()
    (tmp_path / "cut.py").write_text(MACHINE)
    server = subprocess.Popen([sys.executable, SERVER, str(tmp_path / "data"), str(port)], start_new_session=True,
                              stderr=subprocess.DEVNULL)
    (tmp_path / "pid").write_text(str(server.pid))
    try:
        while True:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port)).close()
                break
        line = [PLIMSOLL, "run", "durability", "--store", f"s3://bucket?endpoint=http://127.0.0.1:{port}&provider=generic",
                "--cut", f"{sys.executable} {tmp_path}/cut.py {tmp_path} {port} {lost}", "--cuts", "2",
                "--operations", "60", "--json", "--out", str(tmp_path / "runs")]
        done = subprocess.run(line, capture_output=True, text=True, env=environment())
        findings = json.loads(done.stdout)
        assert findings["cuts"] == 2 and findings["model"] == "", done.stderr
        if lost:
            assert done.returncode == 1 and violations(findings)["lost"] >= 1, findings["headline"]
        else:
            assert (done.returncode, violations(findings)) == (0, {}), done.stderr
        left = [name for name in os.listdir(tmp_path / "data") if not name.endswith(".tmp")]
        assert not left, "not cleaned up"
    finally:
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
        server.wait()


def test_a_cut_that_fails_is_an_error(tmp_path):
    with Server() as server:
        line = [PLIMSOLL, "run", "durability", "--store", f"s3://bucket?endpoint={server.url}", "--cut", "exit 4",
                "--operations", "5", "--out", str(tmp_path / "runs")]
        boto3.client("s3", endpoint_url=server.url, aws_access_key_id=ACCESS, aws_secret_access_key=SECRET,
                     region_name="us-east-1").create_bucket(Bucket="bucket")
        done = subprocess.run(line, capture_output=True, text=True, env=environment())
        assert done.returncode == 3 and "--cut: the command failed" in done.stderr, done.stderr


def processes(word):
    """Returns the processes whose command line contains a word."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if word.encode() in file.read():
                    found.append(int(pid))
        except OSError:
            pass
    return found


def test_a_server_without_data_in_its_directory_is_refused():
    line = f"exec {PLIMSOLL} serve --listen {{address}} # {{dir}}"
    done = subprocess.run([PLIMSOLL, "run", "durability", "--server", line, "--cuts", "1"],
                          capture_output=True, text=True)
    assert done.returncode == 2 and "lost its bucket in a clean restart" in done.stderr, done.stderr


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_after_an_interruption(how, tmp_path):
    """Neither a process, nor a mount, nor a file, whatever ends Plimsoll; a daemon of the server ends too."""
    server = str(tmp_path / f"server-{how}.py")
    shutil.copy(SERVER, server)
    # The kernel ends the server with Plimsoll, but not its descendants.
    mode = "safe" if how == signal.SIGKILL else "daemon"
    started = f"exec {sys.executable} {server} {{dir}} {{port}} {mode}"
    line = [PLIMSOLL, "run", "durability", "--server", started, "--cuts", "500"]
    check_process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                     env={**os.environ, "TMPDIR": str(tmp_path)})
    while len(processes(server)) < (2 if how == signal.SIGKILL else 3):
        assert check_process.poll() is None, check_process.communicate()
    check_process.send_signal(how)
    output, errors = check_process.communicate()
    assert check_process.returncode == {signal.SIGKILL: -9}.get(how, 130), errors
    left = 0
    while processes(server):
        # A killed process needs a moment to disappear.
        left += 1
        assert left < 6_000, processes(server)
        time.sleep(0.01)
    with open("/proc/mounts") as mounts:
        assert str(tmp_path) not in mounts.read()
    folders = [name for name in os.listdir(tmp_path) if name.startswith("plimsoll")]
    if how == signal.SIGKILL:
        assert all(not os.listdir(tmp_path / name / "disk") for name in folders)
    else:
        assert not folders and "cut" in output
