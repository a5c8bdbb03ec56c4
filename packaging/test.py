#!/usr/bin/env python3
"""Installs the artifacts of `make dist` as a new user would, in a bare Debian without a network and without Rust, and
makes a first measurement with each: `make test-dist`. Prints the seconds from the artifact to the result.

Needs root, debootstrap and buildah. The bare system is made once, in target/bare.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from image import USER, buildah

ROOT = Path(__file__).resolve().parent.parent
ARTIFACTS = ROOT / "target" / "artifacts"
BARE = ROOT / "target" / "bare"
# A measurement of an S3 server that Plimsoll starts on this machine.
MEASURE = ["run", "get", "--store", "embedded:", "--size", "1KiB", "--objects", "100", "--duration", "2s", "--out", "/tmp/runs", "--json"]


def bare():
    """Returns the directory of a minimal Debian."""
    if not (BARE / "etc" / "debian_version").exists():
        subprocess.run(["debootstrap", "--variant=minbase", "--include=python3,python3-pip", "bookworm", str(BARE)],
                       check=True, stdout=subprocess.DEVNULL)
    return BARE


def isolated(root, command, user=None, read_only=False):
    """Returns the finished process of a command in another root file system, with the loopback interface only."""
    mounts = [f"mount --rbind {root} {root}", f"mount -t proc proc {root}/proc", f"mount -t tmpfs tmpfs {root}/tmp"]
    if read_only:
        mounts.append(f"mount -o remount,bind,ro {root}")
    enter = ["setpriv", "--no-new-privs", "chroot", f"--userspec={user}:{user}", "--groups="] if user else ["chroot"]
    script = " && ".join(["ip link set lo up", *mounts, 'exec "$@"'])
    # The program that enters the root is outside of it, so an image needs no shell.
    return subprocess.run(["unshare", "--net", "--mount", "--propagation", "private", "sh", "-c", script, "sh",
                           *enter, str(root), *command], capture_output=True, text=True,
                          env={"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": "/tmp"})


def succeed(root, *command, **more):
    done = isolated(root, command, **more)
    if done.returncode != 0:
        raise SystemExit(f"test-dist: {' '.join(command)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def measure(root, program, **more):
    """Makes a measurement, and checks that it has results without errors."""
    result = json.loads(succeed(root, program, *MEASURE, **more))
    window = result["windows"][-1]
    assert window["operations"] > 0 and not window["errors"], window


def only(pattern):
    found = sorted(ARTIFACTS.glob(pattern))
    if len(found) != 1:
        raise SystemExit(f"test-dist: {ARTIFACTS}/{pattern}: {len(found)} artifacts; run `make dist`")
    return found[0]


def copy(folder):
    """Returns a copy of the bare system, which a test may change."""
    target = Path(folder) / "root"
    subprocess.run(["cp", "-a", "--reflink=auto", str(bare()), str(target)], check=True)
    return target


def archive(root):
    shutil.copy(only("*-x86_64-linux.tar.gz"), root / "opt")
    succeed(root, "sh", "-c", "cd /opt && tar xzf *.tar.gz && ln -s /opt/*/bin/* /usr/local/bin/")
    measure(root, "plimsoll")
    assert "linux-musl" in succeed(root, "plimsoll-gateway", "--version")


# Follows README.Debian without systemd: accounts, then the command of the unit as the user of the package.
START = '''
import subprocess
readme = open("/usr/share/doc/plimsoll/README.Debian").read()
subprocess.run(["sh", "-ec", readme.split("As root:")[1].split("systemctl")[0].replace("\\n    ", "\\n")], check=True)
unit = open("/usr/lib/systemd/system/plimsoll-gateway.service").read().replace("\\\\\\n", "")
command = unit.split("ExecStart=")[1].split("\\n")[0].split()
process = subprocess.Popen(["runuser", "-u", "plimsoll", "--", *command], stdout=subprocess.PIPE, text=True)
print(process.stdout.readline(), process.stdout.readline())
process.terminate()
'''


def package(root):
    shutil.copy(only("*_amd64.deb"), root / "opt")
    succeed(root, "sh", "-c", "dpkg --install /opt/*.deb")
    measure(root, "plimsoll")
    started = isolated(root, ["python3", "-c", START])
    assert "listening on" in started.stdout, started
    # Settings that an administrator has changed, and data, stay.
    (root / "etc/plimsoll/gateway.toml").open("a").write("# changed\n")
    (root / "var/lib/plimsoll/data").write_text("kept")
    succeed(root, "sh", "-c", "dpkg --install /opt/*.deb </dev/null && grep -q changed /etc/plimsoll/gateway.toml")
    succeed(root, "dpkg", "--purge", "plimsoll")
    assert (root / "var/lib/plimsoll/data").read_text() == "kept"
    assert not (root / "usr/bin/plimsoll").exists()


def python(root):
    shutil.copy(only("*.manylinux*x86_64*.whl"), root / "opt")
    # The dependency of the Python package needs a network; the program does not.
    succeed(root, "sh", "-c", "python3 -m pip install --break-system-packages --no-deps --no-index --quiet /opt/*.whl")
    measure(root, "plimsoll")


def pod(root, client):
    """Runs the image as the pod of the Helm chart, and measures it."""
    done = subprocess.run(["unshare", "--net", "--mount", "--propagation", "private", sys.executable,
                           str(ROOT / "packaging/pod.py"), str(root), str(client)], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"test-dist: the pod of the Helm chart failed\n{done.stdout}{done.stderr}")


def image(folder):
    for program, command in (("plimsoll", None), ("plimsoll-gateway", ["--version"])):
        container = buildah("from", f"oci-archive:{only(f'{program}-[0-9]*-amd64.oci.tar')}")
        try:
            mounted = buildah("mount", container)
            root = Path(folder) / program
            subprocess.run(["cp", "-a", mounted, str(root)], check=True)
            for name in ("proc", "tmp", "dev"):
                (root / name).mkdir(exist_ok=True)
            if command:
                assert "linux-musl" in succeed(root, f"/usr/bin/{program}", *command, user=USER, read_only=True)
                pod(root, Path(folder) / "plimsoll/usr/bin/plimsoll")
            else:
                measure(root, f"/usr/bin/{program}", user=USER, read_only=True)
        finally:
            buildah("rm", container)


def main():
    if os.geteuid() != 0:
        sys.exit("test-dist: run as root")
    bare()
    for name, test in (("archive", archive), ("Debian package", package), ("wheel", python), ("images", image)):
        with tempfile.TemporaryDirectory(dir=ROOT / "target") as folder:
            place = folder if test is image else copy(folder)
            start = time.monotonic()
            test(place)
            print(f"{name}: {time.monotonic() - start:.1f} s", flush=True)


if __name__ == "__main__":
    main()
