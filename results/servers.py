"""Starts the servers of the results, and measures the CPU time of their processes."""
import contextlib
import os
import pathlib
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
PLIMSOLL = os.environ.get("PLIMSOLL", str(ROOT / "target/release/plimsoll"))
GATEWAY = os.environ.get("GATEWAY", str(ROOT / "target/release/plimsoll-gateway"))
PROFILES = ROOT / "crates/measure/durability/src/servers"
DATA = os.environ.get("DATA", "/var/tmp")
ACCESS_KEY, SECRET_KEY = "plimsollresults", "results-only-secret"
SERVER_CORE, CLIENT_CORE = 0, 1
START_LIMIT_S, STOP_LIMIT_S = 120, 60
SAMPLE_S = 0.1
TICK = os.sysconf("SC_CLK_TCK")


def environment():
    """Returns the environment of servers and clients: the credentials, and the two programs first on the path."""
    programs = f"{pathlib.Path(PLIMSOLL).resolve().parent}:{pathlib.Path(GATEWAY).resolve().parent}"
    env = {key: value for key, value in os.environ.items() if not key.startswith(("AWS_", "PLIMSOLL_", "MINIO_"))}
    return env | {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY, "AWS_REGION": "us-east-1",
                  "PATH": f"{programs}:{os.environ['PATH']}"}


def profile(name):
    """Returns the profile of a server, which `plimsoll run durability --server NAME` uses, too."""
    return tomllib.loads((PROFILES / f"{name}.toml").read_text())


def names():
    return sorted(path.stem for path in PROFILES.glob("*.toml"))


def version(name):
    """Returns the first line that the server's own command prints about its version, or None if it is missing."""
    done = subprocess.run(["sh", "-c", profile(name)["version"]], env=environment(), capture_output=True, text=True)
    return done.stdout.strip().splitlines()[0] if done.returncode == 0 and done.stdout.strip() else None


def free_ports(count):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def descendants(pid):
    """Returns a process and all processes below it that exist."""
    found, waiting = [], [pid]
    while waiting:
        one = waiting.pop()
        found.append(one)
        with contextlib.suppress(OSError):
            for thread in os.listdir(f"/proc/{one}/task"):
                waiting += map(int, pathlib.Path(f"/proc/{one}/task/{thread}/children").read_text().split())
    return found


def cpu_s(pid):
    """Returns the CPU time of a process, of all below it, and of those that have ended, in seconds.

    The CPU-time clock of a process has the number (~pid << 3) | 2 on Linux: clock_getcpuclockid(3)."""
    total = 0.0
    for one in descendants(pid):
        with contextlib.suppress(OSError):
            total += time.clock_gettime((~one << 3) | 2)
            fields = pathlib.Path(f"/proc/{one}/stat").read_text().rsplit(")", 1)[1].split()
            total += (int(fields[13]) + int(fields[14])) / TICK
    return total


def is_running(pid):
    """Returns false for a process that has ended, even if nobody has asked for its exit code yet."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


class Running:
    """A server on an empty directory and one core, with a bucket."""

    def __init__(self, name):
        self.name, self.profile = name, profile(name)
        self.scratch = tempfile.mkdtemp(prefix="plimsoll-results-", dir=DATA)
        os.chmod(self.scratch, 0o755)
        data = os.path.join(self.scratch, "data")
        os.mkdir(data)
        first, *others = free_ports(10)
        self.address = f"127.0.0.1:{first}"
        self.values = {"{dir}": data, "{address}": self.address, "{port}": str(first), "{access_key}": ACCESS_KEY,
                       "{secret_key}": SECRET_KEY} | {f"{{port{i + 1}}}": str(port) for i, port in enumerate(others)}

    def filled(self, text):
        for name, value in self.values.items():
            text = text.replace(name, value)
        return text

    def __enter__(self):
        env = environment() | {key: self.filled(value) for key, value in self.profile.get("env", {}).items()}
        self.log = open(os.path.join(self.scratch, "log"), "w")
        setup = self.start(self.profile.get("setup", ""), env)
        try:
            if setup.wait() != 0:
                raise RuntimeError(f"{self.name}: the setup failed: {self.words()}")
            self.start(self.profile["command"], env)
            self.create_bucket()
        except BaseException:
            self.__exit__()
            raise
        return self

    def start(self, commands, env):
        """Starts shell commands on the server's core, in a session that Ctrl-C does not reach."""
        self.process = subprocess.Popen(
            ["taskset", "-c", str(SERVER_CORE), "sh", "-c", self.filled(commands)], env=env, cwd=self.scratch,
            stdout=self.log, stderr=subprocess.STDOUT, start_new_session=True)
        return self.process

    def words(self):
        """Returns the last words of the server."""
        return pathlib.Path(self.scratch, "log").read_text(errors="replace")[-2000:]

    def create_bucket(self):
        until = time.monotonic() + START_LIMIT_S
        while True:
            done = subprocess.run([PLIMSOLL, "bucket", "create", self.store(), "--timeout", "5s"], env=environment(),
                                  capture_output=True, text=True)
            if done.returncode == 0:
                return
            if self.process.poll() is not None:
                raise RuntimeError(f"{self.name} ended: {self.words()}")
            if time.monotonic() > until:
                raise RuntimeError(f"{self.name} did not start within {START_LIMIT_S} s: {done.stderr}\n{self.words()}")
            time.sleep(0.2)

    def store(self):
        return f"s3://results?endpoint=http://{self.address}"

    def run(self, line, output=None):
        """Runs `plimsoll` with these arguments on the other core. Exit code 1 is a result: an objective is missed."""
        arguments = ["taskset", "-c", str(CLIENT_CORE), "plimsoll"]
        arguments += [word.replace("{name}", self.name).replace("{store}", self.store()) for word in shlex.split(line)]
        done = subprocess.run(arguments, env=environment(), cwd=self.scratch, stdout=output or subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True)
        if done.returncode > 1:
            raise RuntimeError(f"{self.name}: plimsoll {line}: exit code {done.returncode}: {done.stderr[-2000:]}")

    def __exit__(self, *_):
        # Some servers give their processes sessions of their own, so each gets the signal.
        below = descendants(self.process.pid)
        for number in (signal.SIGTERM, signal.SIGKILL):
            for pid in below:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
            until = time.monotonic() + STOP_LIMIT_S
            while any(map(is_running, below)) and time.monotonic() < until:
                self.process.poll()
                time.sleep(0.05)
        self.log.close()
        shutil.rmtree(self.scratch)


class CpuLog:
    """Writes the CPU time of a server to a file, ten times a second: Unix time and CPU time, in seconds."""

    def __init__(self, server, path):
        self.server, self.path, self.ended = server, path, threading.Event()

    def __enter__(self):
        self.thread = threading.Thread(target=self.sample)
        self.thread.start()

    def sample(self):
        with open(self.path, "w") as file:
            file.write("unix_s,cpu_s\n")
            while not self.ended.wait(SAMPLE_S):
                before = time.time()
                used = cpu_s(self.server.process.pid)
                file.write(f"{(before + time.time()) / 2:.4f},{used:.6f}\n")

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()
