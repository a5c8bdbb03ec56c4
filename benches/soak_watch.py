"""What benches/soak.py observes of the gateways while they work."""
import re
import sys
import threading
import time

from soak_engines import STALL_S
from soak_sample import Metrics, Sample


class Watch(threading.Thread):
    """Looks at all gateways once a second: memory, descriptors, loops that have stalled, and positions in the tiers."""

    def __init__(self, engine, load):
        super().__init__(daemon=True)
        self.engine, self.load, self.wrong, self.stalls = engine, load, [], 0
        self.not_ready, self.ended = {}, threading.Event()
        # Positions, the time of their last change, and the number of writes then.
        self.seen = {}
        self.has_loops = False

    def fail(self, text):
        if text not in self.wrong:
            self.wrong.append(text)
            print(f"  {text}", file=sys.stderr, flush=True)

    def run(self):
        while not self.ended.wait(1):
            for gateway in self.engine.gateways:
                if not gateway.is_stopping:
                    self.look(gateway)
            self.look_at_positions()

    def look(self, gateway):
        gateway.sample(gateway in self.engine.serving)
        ready, text = gateway.page("/readyz")
        status, page = gateway.page("/metrics")
        if gateway.is_stopping:
            return
        now = time.monotonic()
        if status == 200:
            metrics = gateway.last = Metrics(page)
            self.has_loops |= bool(metrics.all("loop_stalled"))
            for labels, value in metrics.all("loop_stalled"):
                if value:
                    self.stall(f"{gateway.name}: the loop {labels['loop']} has stalled")
        is_standby = not self.engine.all_serve and gateway not in self.engine.serving
        if ready == 200 and status == 200 or is_standby:
            self.not_ready.pop(gateway.name, None)
            return
        began, starts = self.not_ready.setdefault(gateway.name, (now, gateway.starts))
        if starts != gateway.starts:
            self.not_ready[gateway.name] = (now, gateway.starts)
        elif now - began > STALL_S:
            self.stall(f"{gateway.name} was not ready for {STALL_S} s: /readyz {ready} {text.strip()!r}, /metrics {status}")

    def stall(self, text):
        self.stalls += text not in self.wrong
        self.fail(text)

    def look_at_positions(self):
        """Reports a tier whose position does not advance while clients write."""
        now, writes = time.monotonic(), self.load.writes
        changes = self.engine.changes
        last_change = float("inf") if changes and changes[-1][1] == float("inf") else max((end for _, end in changes), default=now)
        for tier, position in self.engine.positions().items():
            before = self.seen.get(tier)
            if before is None or before["position"] != position or last_change > before["at"]:
                at = now if last_change == float("inf") else max(now, last_change)
                self.seen[tier] = {"position": position, "at": at, "writes": []}
                continue
            # Writes at least 20 s after the last change of the position, and 40 s before now.
            before["writes"].append((now, writes))
            counts = [count for at, count in before["writes"] if before["at"] + 20 <= at <= now - 40]
            if counts and counts[-1] > counts[0]:
                self.stall(f"the position of tier {tier} has stood still at {position} while clients wrote")
                before["writes"].clear()

    def growth(self):
        """Returns the samples after the warm-up and at the end of the longest life, and the lives with a growth."""
        found, wrong = [], []
        for gateway in self.engine.gateways:
            for life in gateway.lives:
                if len(life) < 20:
                    continue
                warm, last = life[:max(len(life) // 4, 10)], life[-5:]
                start, end = (Sample(*(most(column) for column in zip(*samples))) for most, samples in ((max, warm), (min, last)))
                found.append((len(life), start, end))
                if end.rss > start.rss * 1.3 + (64 << 20):
                    wrong.append(f"the memory of {gateway.name} grew from {start.rss >> 20} MiB to {end.rss >> 20} MiB")
                # Connections follow the load, and idle ones stay until their runtime sends another request.
                if end.files > start.files + 20:
                    wrong.append(f"the files of {gateway.name} grew from {start.files} to {end.files}")
        _, start, end = max(found, default=(0, Sample(0, 0, 0), Sample(0, 0, 0)))
        return start, end, wrong


def counted(engine, pattern, number=True):
    """Returns the sum of the numbers that lines of the logs of all gateways have, or the number of these lines."""
    total = 0
    for log in {gateway.log for gateway in engine.gateways}:
        with open(log) as file:
            found = re.findall(pattern, file.read())
        total += sum(map(int, found)) if number else len(found)
    return total
