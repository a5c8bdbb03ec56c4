"""Stands for `systemctl` in the pages of docs/operations: executes the units of a directory without systemd.

PLIMSOLL_TEST_ROOT is the directory that stands for `/`. A started unit is ready when its program has said where it
listens.
"""
import os
import select
import signal
import subprocess
import sys
import time

ROOT = os.environ["PLIMSOLL_TEST_ROOT"]


def unit(name):
    """Returns the command of a unit."""
    with open(f"{ROOT}/etc/systemd/system/{name}.service") as file:
        text = file.read().replace("\\\n", " ")
    lines = dict(line.strip().split("=", 1) for line in text.splitlines() if "=" in line)
    return lines["ExecStart"].split()


def pid_of(name):
    try:
        with open(f"{ROOT}/run/{name}.pid") as file:
            return int(file.read())
    except FileNotFoundError:
        return None


def start(name):
    os.makedirs(f"{ROOT}/run", exist_ok=True)
    out, errors = f"{ROOT}/run/{name}.out", f"{ROOT}/run/{name}.err"
    with open(out, "w") as file, open(errors, "a") as error_file:
        process = subprocess.Popen(unit(name), stdin=subprocess.DEVNULL, stdout=file, stderr=error_file,
                                   start_new_session=True)
    with open(f"{ROOT}/run/{name}.pid", "w") as file:
        file.write(str(process.pid))
    while True:
        with open(out) as file:
            if "listening on" in file.read():
                return 0
        if process.poll() is not None:
            os.remove(f"{ROOT}/run/{name}.pid")
            with open(errors) as file:
                print(file.read(), file=sys.stderr)
            return 1
        time.sleep(0.02)


def stop(name):
    pid = pid_of(name)
    if pid is None:
        return 0
    try:
        # It becomes readable when all threads have ended. /proc shows a zombie when the first thread has ended, while
        # others may still hold the lock of a directory.
        process = os.pidfd_open(pid)
        signal.pidfd_send_signal(process, signal.SIGTERM)
        select.select([process], [], [])
    except ProcessLookupError:
        pass
    os.remove(f"{ROOT}/run/{name}.pid")
    return 0


def reloads(name):
    """Returns how often the program has said that it has loaded its files again."""
    with open(f"{ROOT}/run/{name}.err") as file:
        return file.read().count("SIGHUP: ")


def main(arguments):
    action, name = arguments[0], arguments[-1]
    if action == "daemon-reload":
        return 0
    if action == "enable":
        return start(name) if "--now" in arguments else 0
    if action == "restart":
        stop(name)
        return start(name)
    if action == "reload":
        before = reloads(name)
        os.kill(pid_of(name), signal.SIGHUP)
        while reloads(name) == before:
            time.sleep(0.02)
        return 0
    return {"start": start, "stop": stop}[action](name)


sys.exit(main(sys.argv[1:]))
