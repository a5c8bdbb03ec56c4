"""One look of benches/soak.py at a gateway."""
import os
import re
from collections import namedtuple

# Memory in bytes, number of descriptors, and of those that are no connections.
Sample = namedtuple("Sample", "rss descriptors files")


def sample_of(pid):
    """Returns the sample of a process; None if it has ended."""
    try:
        with open(f"/proc/{pid}/status") as file:
            rss = next((int(line.split()[1]) * 1024 for line in file if line.startswith("VmRSS")), None)
        descriptors = descriptors_of(pid)
    except (FileNotFoundError, ProcessLookupError):
        return None
    files = sum(not target.startswith("socket:") for target in descriptors)
    return Sample(rss, len(descriptors), files) if rss else None


def descriptors_of(pid):
    """Returns what the descriptors of a process are."""
    found = []
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            found.append(os.readlink(f"/proc/{pid}/fd/{name}"))
        except FileNotFoundError:
            pass
    return found


class Metrics:
    """One answer of /metrics."""

    def __init__(self, text):
        self.values = {}
        for name, labels, value in re.findall(r"^plimsoll_gateway_(\w+)(?:\{(.*)\})? ([-\d.e+]+|NaN)$", text, re.M):
            self.values.setdefault(name, []).append((dict(re.findall(r'(\w+)="([^"]*)"', labels)), float(value)))

    def all(self, name):
        return self.values.get(name, [])

    def sum(self, name, **labels):
        """Returns the sum of the values with these labels; 0 if there is none."""
        return sum(value for found, value in self.all(name) if labels.items() <= found.items())

    def one(self, name, default=None):
        return self.all(name)[0][1] if self.all(name) else default
