"""A PostgreSQL server of the distribution, reached over a socket in its directory."""
import contextlib
import glob
import os
import shutil
import signal
import subprocess
import tempfile
from urllib.parse import quote


def programs():
    """Returns the directory of the newest server, or None if the package is not installed."""
    return max((os.path.dirname(path) for path in glob.glob("/usr/lib/postgresql/*/bin/initdb")), default=None)


def is_alive(process):
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "XZ"
    except FileNotFoundError:
        return False


class Postgres:
    def __init__(self):
        self.directory = tempfile.mkdtemp(prefix="plimsoll-postgres-")
        # The server refuses to run as root.
        self.account = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.geteuid() == 0 else []
        if self.account:
            shutil.chown(self.directory, "postgres", "postgres")
        self.call("initdb", "--auth=trust", "--username=plimsoll", "--no-sync", "--no-instructions", "-D", "data")
        self.process = None
        self.start()

    def command(self, program, *arguments):
        return [*self.account, os.path.join(programs(), program), *arguments]

    def call(self, program, *arguments):
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
        return subprocess.run(self.command(program, *arguments), cwd=self.directory, check=True, **quiet)

    @property
    def url(self):
        return f"postgres://plimsoll@{quote(self.directory, safe='')}/postgres"

    def start(self):
        self.process = subprocess.Popen(
            self.command("postgres", "-D", "data", "-c", "listen_addresses=", "-c",
                         f"unix_socket_directories={self.directory}"),
            cwd=self.directory, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while subprocess.run(self.command("pg_isready", "-q", "-h", self.directory)).returncode != 0:
            assert self.process.poll() is None, "the database does not start"

    def query(self, text):
        """Returns the first column of the result of a statement, as text."""
        command = ["psql", "-h", self.directory, "-U", "plimsoll", "-d", "postgres", "-Atc", text]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\n")[:-1]

    def kill(self):
        """Kills all processes of the server, and waits for their end: a new server refuses the memory of a living one."""
        # It would start others in place of the killed ones.
        self.process.send_signal(signal.SIGSTOP)
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children") as file:
            children = [int(child) for child in file.read().split()]
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        self.process.kill()
        self.process.wait()
        while any(is_alive(child) for child in children):
            pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)
