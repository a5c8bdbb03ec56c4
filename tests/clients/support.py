"""Shared helpers of the black-box tests: a `plimsoll serve` on a free port and its credentials."""
import os
import random
import socket
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PLIMSOLL = os.environ.get("PLIMSOLL", os.path.join(ROOT, "target", "release", "plimsoll"))
ACCESS, SECRET = "client-test", "client-test-secret"


def environment(**more):
    """Returns the environment of a client, with the test credentials and no others."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("AWS_")}
    env.update(AWS_ACCESS_KEY_ID=ACCESS, AWS_SECRET_ACCESS_KEY=SECRET, AWS_REGION="us-east-1",
               AWS_DEFAULT_REGION="us-east-1", AWS_EC2_METADATA_DISABLED="true", **more)
    return env


GATEWAY = os.environ.get("GATEWAY", os.path.join(os.path.dirname(PLIMSOLL), "plimsoll-gateway"))


def free_port():
    """Returns a port for servers that start later or again. A connection of another process cannot take it meanwhile, because
    the system gives connections only ports of its range."""
    with open("/proc/sys/net/ipv4/ip_local_port_range") as file:
        first = int(file.read().split()[0])
    while True:
        port = random.SystemRandom().randrange(10_000, first)
        with socket.socket() as one:
            try:
                one.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


class Server:
    def __init__(self, *arguments, command=(PLIMSOLL, "serve"), listen="127.0.0.1:0"):
        env = environment(PLIMSOLL_ACCESS_KEY=ACCESS, PLIMSOLL_SECRET_KEY=SECRET)
        self.process = subprocess.Popen([*command, "--listen", listen, *arguments],
                                        env=env, stdout=subprocess.PIPE, text=True)
        self.metrics = self.console = None
        line = self.process.stdout.readline()
        if line.startswith("metrics on "):
            self.metrics, line = line.split()[-1], self.process.stdout.readline()
        if line.startswith("console on "):
            self.console, line = line.split()[-1], self.process.stdout.readline()
        self.url = line.split()[-1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        assert self.process.wait(timeout=10) == 0, "the server failed"
