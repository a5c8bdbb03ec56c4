#!/usr/bin/env python3
"""A soak test of `plimsoll-gateway`: all background work at the same time, while clients write, read and delete, and
gateways are restarted.

    python3 benches/soak.py --objects 50000 --minutes 30                     # an hour and three quarters
    python3 benches/soak.py --engine postgres --objects 400 --lifecycle-day 20s --max-size 16MiB

Engines: a catalog in a directory with a backup; one in PostgreSQL with two gateways; a journal with a standby. The work:
packing, moves in both directions, lifecycle rules, deletion of what is not kept any longer, backups, verification. The
clients: boto3, the AWS CLI, rclone and restic. Gateways end with SIGTERM at random moments.

It fails if

- a loop has stalled, a gateway is not ready for a minute, or the position in a tier stands still while clients write
- a request fails outside a restart, or a process does not end within 10 s after SIGTERM with exit code 0
- something of the backlog is left: moves, bodies to pack, bytes whose retention has ended, the backup, expired objects
- an object is not in the tier that the rules name, or a tier has an object that the catalog does not know
- the memory of a process grows by more than 30% and 64 MiB, or its open files by more than 20: the last samples of each
  life of a process are compared with the maximum in the first quarter of this life. Connections do not count
- any byte of any object differs from those that were written; writes without an answer may have either result
- the requests of moves differ from those of `plan`. After the load, gateways without rules serve while new bodies, all
  above the limit of packing, are written. Then `plan` runs, and all gateways start again with the rules of the plan,
  which move these bodies to the second tier and some of the soak back. The counters of each tier must then be those of
  the plan. 15 minutes after a restart, bytes that it has interrupted are deleted for the second time; so in longer
  soaks there may be more deletions than planned.

What the clients do depends on --seed, and only their pace on the machine. Without --minutes, the soak ends when each
client has done its share, with --restarts restarts in between. Without --keep, the files of a soak that has not failed
are deleted. Needs boto3; PLIMSOLL and GATEWAY name the binaries, and DATA the directory of the files.
"""
import argparse
import os
import random
import re
import shutil
import sys
import tempfile
import time

from soak_engines import ENGINES, SoakFailed, command, connect
from soak_load import FAILURES, KIB, MIB, Load, verify_all
from soak_tools import installed
from soak_watch import Watch, counted

# Work that must have been done, by the column of the table.
WORK = {"moved": r"moved (\d+) blobs", "packed": r"wrote (\d+) pack files", "expired": r"lifecycle rules have removed (\d+)",
        "deleted": r"deleted (\d+) blobs", "scrubbed": r"verified (\d+) objects and versions"}
# Seconds after which interrupted writes are deleted for the second time, less some.
SECOND_DELETION_S = 14 * 60


def parse_size(text):
    number, unit = re.fullmatch(r"([\d.]+) *([kMG]i?B|B)?", text, re.I).groups()
    unit = (unit or "B").lower()
    return int(float(number) * (1024 if "i" in unit else 1000) ** "bkmg".index(unit[0]))


def parse_time(text):
    number, unit = re.fullmatch(r"([\d.]+)(ms|s|m|h)", text).groups()
    return float(number) * {"ms": 0.001, "s": 1, "m": 60, "h": 3600}[unit]


class Soak:
    """The soak of one engine."""

    def __init__(self, name, options):
        base = os.environ.get("DATA", "/var/tmp")
        self.base, self.options = tempfile.mkdtemp(prefix=f"plimsoll-soak-{name}-", dir=base), options
        os.chmod(self.base, 0o755)
        self.engine = ENGINES[name](self.base, options)
        self.load = Load(self.engine, options, installed())
        self.watch = Watch(self.engine, self.load)
        self.choose, self.wrong, self.restarts = random.Random(f"{options.seed}/{name}"), [], 0
        self.row = {"engine": name}

    def say(self, text):
        if not self.options.quiet:
            print(f"[{time.monotonic() - self.began:6.1f} s] {self.engine.name}: {text}", file=sys.stderr, flush=True)

    def run(self):
        """Executes all stages. Returns what is wrong."""
        self.began = time.monotonic()
        try:
            self.engine.prepare()
            self.load.create_buckets()
            self.watch.start()
            self.say("the clients begin")
            self.fill_and_restart()
            self.say("the clients have ended")
            for writer in self.load.writers:
                for key in sorted(writer.frozen):
                    writer.settle(key)
            self.drain()
            for writer in self.load.writers:
                writer.turn_back()
            self.check_lifecycle()
            self.drain()
            self.check_places()
            self.check_progress()
            self.finish_row()
            self.compare_with_plan()
            self.say("every byte is read")
            self.row["objects"], self.row["bytes"] = verify_all(self.load)
            self.check_store()
        except (SoakFailed, *FAILURES) as error:
            self.wrong.append(str(error))
        finally:
            self.stop()
        self.wrong += self.watch.wrong + self.load.wrong[:20] + self.load.failed[:20]
        if len(self.load.failed) > 20:
            self.wrong.append(f"{len(self.load.failed)} requests failed outside restarts")
        if not self.watch.has_loops and not self.options.without_loops:
            self.wrong.append("/metrics has no plimsoll_gateway_loop_stalled")
        self.row.update({"stalls": self.watch.stalls, "wrong bytes": len(self.load.wrong), "seconds": int(time.monotonic() - self.began)})
        return self.wrong

    def stop(self):
        """Ends everything, and checks that the gateways end in order."""
        self.load.stopped.set()
        self.say("the gateways end")
        self.finish_row()
        try:
            self.wrong += self.engine.stop()
        finally:
            self.watch.ended.set()
            if self.watch.ident:
                self.watch.join()
            self.engine.end()

    def restart(self):
        wrong = self.engine.restart(self.choose)
        self.restarts += 1
        self.say(f"restart {self.restarts}" + (f": {wrong}" if wrong else ""))
        if wrong:
            self.wrong.append(wrong)

    def fill_and_restart(self):
        """Lets the clients work, and restarts gateways meanwhile."""
        options, load = self.options, self.load
        began = time.monotonic()
        load.until = began + options.minutes * 60
        load.start()
        next_restart = options.restart_every * self.choose.uniform(0.5, 1)
        while not load.is_done():
            time.sleep(0.2)
            if self.watch.wrong or load.wrong:
                raise SoakFailed("the load was ended")
            for gateway in self.engine.gateways:
                if gateway.process.poll() is not None and not gateway.is_stopping:
                    raise SoakFailed(f"{gateway.name} has ended with exit code {gateway.process.returncode}:\n{gateway.tail()}")
            if options.minutes:
                is_due = time.monotonic() - began >= next_restart
            else:
                is_due = self.restarts < options.restarts \
                    and load.operations >= load.expected * (self.restarts + 1) / (options.restarts + 1)
            if is_due:
                time.sleep(self.choose.uniform(0, 1))
                self.restart()
                next_restart = time.monotonic() - began + options.restart_every * self.choose.uniform(0.8, 1.2)
            elif not options.minutes and load.operations >= load.expected and time.monotonic() - began > options.deadline:
                raise SoakFailed("clients do not end: " + ", ".join(client.name for client in load.all if client.is_alive()))

    def look(self):
        """Returns the metrics of the gateway that leads; `None` if none does."""
        leader = self.engine.leader()
        if self.watch.wrong:
            raise SoakFailed("the backlog is not waited for")
        if leader and self.options.record_backups and leader.last.one("deletions_stopped"):
            command("backup", leader.file, "--done", "0s", text=True)
        return leader and leader.last

    def until_none_waits(self, names, is_visited=lambda metrics: True):
        """Waits until metrics of the gateway that leads are 0."""
        left = {}

        def is_empty():
            left.clear()
            metrics = self.look()
            if metrics is None:
                left["a leader"] = 1
                return False
            left.update({name: metrics.sum(name) for name in names if metrics.sum(name)})
            if not is_visited(metrics):
                left["a visit of all objects"] = 1
            return not left
        self.engine.until(is_empty, lambda: f"a backlog is left after {self.options.deadline} s: {left}", poll=0.3)

    @staticmethod
    def visited_from_now():
        """Returns a condition: all objects were visited since now."""
        since = time.monotonic()
        return lambda metrics: metrics.one("survey_age_seconds", float("inf")) < time.monotonic() - since

    def drain(self):
        """Waits until nothing waits any more, everything that is not kept is deleted, and the backup has everything."""
        if hasattr(self.engine, "end_backups"):
            self.engine.end_backups()
        began = time.monotonic()
        # The first visit may have begun before.
        for _ in range(2):
            self.until_none_waits(("waiting_moves", "waiting_packs", "unfinished_moves"), is_visited=self.visited_from_now())
        self.say(f"no move waits after {time.monotonic() - began:.1f} s")
        # From now on, the sources of moves are kept for this time.
        time.sleep(self.options.retain + 2)
        self.until_none_waits(("deletion_overdue_seconds", "kept_bytes", "deletions_stopped"))
        self.until_none_waits(("backup_lag_seconds", "backup_damaged", "scrub_damaged_objects", "scrub_damaged_copies",
                               "scrub_damaged_kept_objects"))
        self.say(f"the backlog was empty after {time.monotonic() - began:.1f} s")

    def check_places(self):
        """Checks that each object is in the tier that the rules name."""
        keys = {key: states for writer in self.load.writers for key, states in writer.known.items() if None not in states}
        cold = sum(key.endswith(".m") and not next(iter(states)).is_turned for key, states in keys.items())
        metrics = (self.engine.leader() or self.engine.gateways[0]).last
        found = {place: int(metrics.sum("objects", bucket="soak", location=place)) for place in ("hot", "cold", "catalog")}
        expected = {"hot": len(keys) - cold, "cold": cold, "catalog": 0}
        if found != expected:
            self.wrong.append(f"objects by place: {found} in place of {expected}")
        self.say(f"objects by place: {found}")

    def check_lifecycle(self):
        left = [None]

        def is_empty():
            left[0] = self.load.expiring.left()
            return left[0] == (0, 0, 0)
        self.engine.until(is_empty, lambda: f"expired objects, uploads and old versions are left: {left[0]}", poll=0.5)
        self.say("everything that expires has expired")

    def check_progress(self):
        """Checks that the position in each tier follows a write, and that a later verification ends."""
        pattern = r"(verified) \d+ objects and versions"
        verified, before = counted(self.engine, pattern, number=False), self.engine.positions()
        connect(self.engine.url()).put_object(Bucket="plan", Key="position", Body=b"position")
        self.engine.until(lambda: counted(self.engine, pattern, number=False) >= verified + 2, "no verification ends", poll=0.5)
        self.engine.until(lambda: all(position != before[tier] for tier, position in self.engine.positions().items()),
                          lambda: f"the positions of the tiers stay at {before}", seconds=STALL_LIMIT_S)

    def compare_with_plan(self):
        """Compares the requests of moves with those of `plan`."""
        self.wrong += self.engine.use("quiet")
        s3, choose = connect(self.engine.url()), random.Random(f"{self.options.seed}/plan")
        for number in range(50):
            s3.put_object(Bucket="plan", Key=f"large/{number}", Body=choose.randbytes(choose.randrange(64 * KIB + 1, 300 * KIB)))
        upload = s3.create_multipart_upload(Bucket="plan", Key="parts")["UploadId"]
        parts = [s3.upload_part(Bucket="plan", Key="parts", UploadId=upload, PartNumber=number, Body=choose.randbytes(5 * MIB))["ETag"]
                 for number in (1, 2)]
        s3.complete_multipart_upload(Bucket="plan", Key="parts", UploadId=upload, MultipartUpload={
            "Parts": [{"PartNumber": number, "ETag": etag} for number, etag in enumerate(parts, 1)]})
        # What the last pack files have replaced is deleted before the requests are counted.
        for _ in range(2):
            self.until_none_waits(("deletion_overdue_seconds", "kept_bytes"), is_visited=self.visited_from_now())
        file = os.path.join(os.path.dirname(self.engine.gateways[0].file), "plan.toml")
        self.engine.write_settings(file, "plan")
        planned = command("plan", file, "--json")
        expected = {tier["tier"]: {call: count for call, count in tier["requests"].items() if count} for tier in planned["tiers"]}
        self.say(planned["headline"])
        self.wrong += self.engine.use("plan")
        found = {}

        def has_all():
            found.clear()
            self.look()
            found.update(self.requests())
            return all(found[tier].get(call, 0) >= count for tier, calls in expected.items() for call, count in calls.items())
        self.engine.until(has_all, lambda: f"requests: {found} in place of the planned {expected}", poll=0.5)
        # Later requests would be too many.
        time.sleep(5)
        has_all()
        if self.restarts and time.monotonic() - self.began > SECOND_DELETION_S:
            for tier, calls in expected.items():
                calls["DeleteObject"] = max(calls.get("DeleteObject", 0), found[tier].get("DeleteObject", 0))
        if found != expected:
            self.wrong.append(f"requests of moves: {found} in place of the planned {expected}")
        self.say(f"requests of moves: {found}, as planned" if found == expected else "the plan has other requests")

    def requests(self):
        """Returns the requests of all gateways by tier and call."""
        found = {"hot": {}, "cold": {}}
        for gateway in self.engine.gateways:
            for labels, value in gateway.metrics().all("tier_requests_total"):
                # The start of a gateway lists each tier once, to find out whether it answers.
                if labels["tier"] in found and value and labels["call"] != "ListObjects":
                    calls = found[labels["tier"]]
                    calls[labels["call"]] = calls.get(labels["call"], 0) + int(value)
        return found

    def check_store(self):
        """Verifies the store with commands: every byte, the objects in the tiers, and the backup."""
        file = (self.engine.leader() or self.engine.gateways[0]).file
        scrubbed = command("scrub", file, "--json", codes=(0, 1))
        for name in ("damage", "objects_damaged", "kept_damaged", "copies_damaged", "objects_unverified"):
            if scrubbed[name]:
                self.wrong.append(f"scrub: {name}: {scrubbed[name][:3]}")
        swept = command("sweep", file, "--older-than", f"{self.options.retain}s", "--max-share", "100", "--json")
        orphans = {tier: found["orphans"] for tier, found in swept.items() if found["orphans"]}
        if orphans:
            self.wrong.append(f"objects in tiers that the catalog does not know: {orphans}")
        self.engine.verify_backup()

    def finish_row(self):
        if "restarts" in self.row:
            return
        start, end, wrong = self.watch.growth()
        done = {name: counted(self.engine, pattern) for name, pattern in WORK.items()}
        done["backups"] = self.engine.backups()
        if not self.wrong and not self.watch.wrong:
            # Work that was ended by a failure is not reported.
            wrong += [f"nothing was {name}" if name != "backups" else "there was no backup" for name, count in done.items() if not count]
        self.wrong += wrong
        self.row.update({"objects": 0, "bytes": 0, "operations": self.load.operations, "restarts": self.restarts, **done,
                         "RSS start": start.rss >> 20, "RSS end": end.rss >> 20, "fds start": start.descriptors,
                         "fds end": end.descriptors, "unanswered": sum(len(writer.frozen) for writer in self.load.writers)})


# Seconds in which the position in the tiers follows a write: it is recorded every 10 s.
STALL_LIMIT_S = 120


def table(rows):
    names = list(max(rows, key=len))
    cells = [names] + [[str(row.get(name, "-")) for name in names] for row in rows]
    widths = [max(len(line[at]) for line in cells) for at in range(len(names))]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(line, widths)) for line in cells)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--engine", nargs="+", action="extend", choices=list(ENGINES), help="engines to test [default: all]")
    parser.add_argument("--objects", type=int, default=50_000, help="objects that boto3 writes, for each engine")
    parser.add_argument("--minutes", type=float, default=0, help="time of the load for each engine [default: until its work is done]")
    parser.add_argument("--restart-every", type=float, default=300, metavar="SECONDS", help="with --minutes")
    parser.add_argument("--restarts", type=int, default=2, help="restarts without --minutes")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--max-size", dest="largest", type=parse_size, default=100_000_000, metavar="SIZE", help="of a body [default: 100MB]")
    parser.add_argument("--clients", type=int, default=4, help="clients that use boto3")
    parser.add_argument("--lifecycle-day", default="1m", metavar="TIME")
    parser.add_argument("--retain", type=int, default=60, metavar="SECONDS",
                        help="time for which deleted objects are kept; "
                        "longer than a backup of the catalog takes, or nothing is deleted [default: 60]")
    parser.add_argument("--deadline", type=int, default=600, metavar="SECONDS", help="longest wait for an event")
    parser.add_argument("--without-loops", action="store_true", help="accept a gateway without metrics of its loops")
    parser.add_argument("--record-backups", action="store_true",
                        help="record backups by hand: accept a gateway whose deletions wait for a record of each hour")
    parser.add_argument("--keep", action="store_true", help="keep the files")
    parser.add_argument("--quiet", action="store_true", help="print the table and failures only")
    options = parser.parse_args()
    options.day = parse_time(options.lifecycle_day)
    rows, failed = [], False
    for name in options.engine or ENGINES:
        soak = Soak(name, options)
        wrong = soak.run()
        rows.append(soak.row)
        for text in wrong:
            print(f"{name}: {text}", file=sys.stderr, flush=True)
        if wrong:
            failed = True
            print(f"{name}: the logs are in {soak.base}", file=sys.stderr, flush=True)
        elif not options.keep:
            shutil.rmtree(soak.base, ignore_errors=True)
    print(table(rows), flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
