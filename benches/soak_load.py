"""The clients of benches/soak.py. Each records its acknowledged writes, and those without an answer."""
import bisect
import concurrent.futures
import hashlib
import io
import math
import random
import sys
import threading
import time
from collections import namedtuple

from boto3.exceptions import Boto3Error
from boto3.s3.transfer import TransferConfig
from botocore.exceptions import BotoCoreError, ClientError

from soak_engines import connect

KIB, MIB = 1 << 10, 1 << 20
FAILURES = (Boto3Error, BotoCoreError, ClientError, OSError)
# Share of the bodies, and their smallest and largest size.
SIZES = [(0.45, 1, 4 * KIB), (0.25, 4 * KIB, 64 * KIB), (0.28, 64 * KIB, 256 * KIB), (0.019, 256 * KIB, 2 * MIB), (0.001, 2 * MIB, None)]

# Content of an object, and whether it has the tag that lets it return to the first tier.
State = namedtuple("State", "number size digest is_turned")


def body(seed, key, number, size):
    return random.Random(f"{seed}/{key}/{number}").randbytes(size)


def code(error):
    """Returns the code in the answer to a failed request; `None` without an answer."""
    return (getattr(error, "response", None) or {}).get("Error", {}).get("Code")


def draw_size(choose, largest):
    """Returns a size whose logarithm is uniform within its class."""
    point = choose.random()
    at = bisect.bisect_right([sum(share for share, *_ in SIZES[:n + 1]) for n in range(len(SIZES) - 1)], point)
    _, low, high = SIZES[at]
    low, high = min(low, largest), min(high or largest, largest)
    return int(math.exp(choose.uniform(math.log(low), math.log(high))))


class Load:
    """All clients of an engine."""

    def __init__(self, engine, options, tools):
        self.engine, self.options = engine, options
        self.stopped, self.lock = threading.Event(), threading.Lock()
        self.operations = self.writes = self.bytes = 0
        # Answers that no state explains, and failures outside restarts.
        self.wrong, self.failed = [], []
        share = -(-options.objects // options.clients)
        self.writers = [Writer(self, index, share) for index in range(options.clients)]
        self.tools = [tool(self) for tool in tools]
        self.expiring = Expiring(self, max(options.objects // 10, 20))
        self.all = [*self.writers, self.expiring, *self.tools]

    @property
    def expected(self):
        """Number of operations of the writers without a time."""
        return sum(2 * writer.share for writer in self.writers)

    def create_buckets(self):
        s3 = connect(self.engine.url())
        for bucket in ("soak", "expire", "versions", "plan", "aws", "rclone", "restic"):
            s3.create_bucket(Bucket=bucket)
        s3.put_bucket_versioning(Bucket="versions", VersioningConfiguration={"Status": "Enabled"})
        rule = {"Status": "Enabled", "Filter": {"Prefix": ""}}
        s3.put_bucket_lifecycle_configuration(Bucket="expire", LifecycleConfiguration={"Rules": [
            dict(rule, ID="expire", Expiration={"Days": 1}, AbortIncompleteMultipartUpload={"DaysAfterInitiation": 1})]})
        s3.put_bucket_lifecycle_configuration(Bucket="versions", LifecycleConfiguration={"Rules": [
            dict(rule, ID="old", NoncurrentVersionExpiration={"NoncurrentDays": 1})]})

    def start(self):
        for client in self.all:
            client.start()

    def is_done(self):
        return not any(client.is_alive() for client in self.all)

    def count(self, writes=0, size=0):
        with self.lock:
            self.operations += 1
            self.writes += writes
            self.bytes += size

    def fail(self, text):
        with self.lock:
            self.wrong.append(text)
        print(f"  {text}", file=sys.stderr, flush=True)

    def excuse(self, began, what, error):
        """Reports a failure of a request that no restart explains."""
        if not self.engine.may_fail(began) and not self.stopped.is_set():
            with self.lock:
                self.failed.append(f"{what}: {error}")
            print(f"  outside a restart: {what}: {error}", file=sys.stderr, flush=True)


class Client(threading.Thread):
    """A client with keys that nobody else writes. It works until it has done its share, and until the time is over."""

    def __init__(self, load, name):
        super().__init__(daemon=True, name=name)
        self.load, self.engine = load, load.engine
        self.choose = random.Random(f"{load.options.seed}/{name}")
        self.clients = {}

    def s3(self):
        """Returns a client of a gateway that serves; another one after a restart. Waits while none serves."""
        while True:
            serving = self.engine.serving
            if serving:
                gateway = self.choose.choice(serving)
                key = (gateway.url, gateway.starts)
                if key not in self.clients:
                    self.clients[key] = connect(gateway.url)
                return self.clients[key]
            time.sleep(0.05)

    def goes_on(self):
        """Returns true until the time of the soak is over."""
        return time.monotonic() < self.load.until and not self.load.stopped.is_set()

    def run(self):
        try:
            self.work()
        except Exception as error:  # noqa: BLE001 a client that has failed must not look like one that has finished
            if not self.load.stopped.is_set():
                self.load.fail(f"the client {self.name} failed: {type(error).__name__}: {error}")

    def call(self, what, operation):
        """Executes an operation, and repeats it until it succeeds. Only for those that may be executed twice."""
        while True:
            began = time.monotonic()
            try:
                return operation(self.s3())
            except FAILURES as error:
                self.load.excuse(began, what, error)
                if self.load.stopped.is_set():
                    raise
                time.sleep(0.1)


class Writer(Client):
    """Writes its share of the objects, and as many other operations; and further ones until the time is over."""

    def __init__(self, load, index, share):
        super().__init__(load, f"writer-{index}")
        self.index, self.share = index, share
        # Allowed states of each key; `None` stands for no object. A key with an unanswered write is not used again, because
        # this write may be executed later.
        self.known, self.frozen, self.number = {}, set(), 0

    def key(self, number):
        # Two of three objects move.
        return f"w{self.index}/{number:06}" + (".m" if number % 3 else "")

    def work(self):
        for number in range(self.share):
            # One body has the largest size.
            largest = self.load.options.largest
            size = largest if (self.index, number) == (0, self.share // 2) else draw_size(self.choose, largest)
            self.put(self.key(number), size)
            if self.load.stopped.is_set():
                return
        done = 0
        while (done < self.share or self.goes_on()) and not self.load.stopped.is_set():
            self.operate()
            done += 1
            if done > self.share:
                # The background work gets a part of the machine.
                time.sleep(0.02)

    def write(self, key, after, operation):
        """Executes a write after which a key has a state."""
        self.known[key] = self.known.get(key, {None}) | {after}
        began = time.monotonic()
        try:
            operation(self.s3())
        except FAILURES as error:
            self.frozen.add(key)
            self.load.excuse(began, f"write of {key}", error)
            time.sleep(0.1)
            return
        self.known[key] = {after}
        self.load.count(writes=1, size=after.size if after else 0)

    def put(self, key, size):
        self.number += 1
        data = body(self.load.options.seed, key, self.number, size)
        after = State(self.number, size, hashlib.sha256(data).hexdigest(), False)
        if size < 8 * MIB:
            self.write(key, after, lambda s3: s3.put_object(Bucket="soak", Key=key, Body=data))
        else:
            config = TransferConfig(multipart_threshold=8 * MIB, multipart_chunksize=8 * MIB, max_concurrency=2)
            self.write(key, after, lambda s3: s3.upload_fileobj(io.BytesIO(data), "soak", key, Config=config))

    def operate(self):
        number = self.choose.randrange(self.share)
        key, point = self.key(number), self.choose.random()
        if key in self.frozen:
            return
        [state] = self.known.get(key, {None})
        if state and state.size == self.load.options.largest:
            # The body with the largest size stays.
            self.read(key, state)
        elif point < 0.28 or state is None:
            # A large body in place of a small one would let the store grow without end.
            self.put(key, min(draw_size(self.choose, self.load.options.largest), 4 * MIB))
        elif point < 0.38:
            self.write(key, None, lambda s3: s3.delete_object(Bucket="soak", Key=key))
        elif point < 0.70:
            self.read(key, state)
        elif point < 0.78:
            self.read(key, state, begin=self.choose.randrange(state.size))
        elif point < 0.83:
            self.copy(key, self.key(self.choose.randrange(self.share)), state)
        elif point < 0.93:
            self.turn(key, state, not state.is_turned)
        else:
            self.list(f"w{self.index}/{number:06}"[:-1])

    def turn(self, key, state, is_turned):
        """Lets an object move to the other tier."""
        tags = [{"Key": "turn", "Value": "back"}] if is_turned else []
        self.write(key, state._replace(is_turned=is_turned),
                   lambda s3: s3.put_object_tagging(Bucket="soak", Key=key, Tagging={"TagSet": tags}))

    def copy(self, key, to, state):
        if to in self.frozen or to == key or None not in (found := self.known.get(to, {None})) \
                and next(iter(found)).size == self.load.options.largest:
            return
        self.write(to, state, lambda s3: s3.copy_object(Bucket="soak", Key=to, CopySource=f"soak/{key}"))

    def read(self, key, state, begin=None):
        began = time.monotonic()
        try:
            if begin is None:
                data = self.s3().get_object(Bucket="soak", Key=key)["Body"].read()
                is_right = hashlib.sha256(data).hexdigest() == state.digest
            else:
                end = min(begin + 65_536, state.size)
                data = self.s3().get_object(Bucket="soak", Key=key, Range=f"bytes={begin}-{end - 1}")["Body"].read()
                is_right = len(data) == end - begin
        except FAILURES as error:
            if code(error) == "NoSuchKey":
                self.load.fail(f"{key}: an acknowledged write is lost")
            self.load.excuse(began, f"read of {key}", error)
            return
        if not is_right:
            self.load.fail(f"{key}: {len(data)} wrong bytes")
        self.load.count()

    def list(self, prefix):
        began = time.monotonic()
        try:
            listed = {one["Key"] for one in self.s3().list_objects_v2(Bucket="soak", Prefix=prefix).get("Contents", [])}
        except FAILURES as error:
            self.load.excuse(began, f"listing of {prefix}", error)
            return
        expected = {key for key, states in self.known.items() if key.startswith(prefix) and None not in states}
        if listed - self.frozen != expected - self.frozen:
            self.load.fail(f"listing of {prefix}: {sorted((listed ^ expected) - self.frozen)[:5]} are missing or too much")
        self.load.count()

    def live(self):
        """Returns the keys with an object, whose state is certain."""
        return [key for key, states in sorted(self.known.items()) if key not in self.frozen and None not in states]

    def turn_back(self):
        """Lets every fifth object that moves return."""
        for key in [key for key in self.live() if key.endswith(".m")][::5]:
            [state] = self.known[key]
            self.turn(key, state, True)

    def settle(self, key):
        """Finds out the state of a key with a write without an answer."""
        def find(s3):
            try:
                data = s3.get_object(Bucket="soak", Key=key)["Body"].read()
                tags = s3.get_object_tagging(Bucket="soak", Key=key)["TagSet"]
            except ClientError as error:
                if code(error) == "NoSuchKey":
                    return None, False
                raise
            return hashlib.sha256(data).hexdigest(), bool(tags)
        digest, is_turned = self.call(f"read of {key}", find)
        found = {state for state in self.known[key]
                 if (state is None) == (digest is None) and (state is None or (state.digest, state.is_turned) == (digest, is_turned))}
        if not found:
            self.load.fail(f"{key}: its content is neither that before nor that after a write without an answer")
        self.known[key] = found or self.known[key]

    def verify(self):
        """Reads every object. Returns the keys that must be in the listing, and the bytes."""
        keys, size = set(), 0
        for key in sorted(self.known):
            if key in self.frozen:
                self.settle(key)
            state = next(iter(self.known[key]))
            if state is None:
                continue
            keys.add(key)
            size += state.size
            try:
                data = self.call(f"read of {key}", lambda s3: s3.get_object(Bucket="soak", Key=key)["Body"].read())
            except FAILURES as error:
                self.load.fail(f"{key}: {error}")
                continue
            if hashlib.sha256(data).hexdigest() != state.digest:
                self.load.fail(f"{key}: {len(data)} wrong bytes at the end")
        return keys, size


class Expiring(Client):
    """Writes objects that lifecycle rules delete after a day, versions, and uploads that never end."""

    def __init__(self, load, share):
        super().__init__(load, "expiring")
        self.share, self.day, self.versions = share, load.options.day, {}

    def work(self):
        count, written = 0, []
        while (count < self.share or self.goes_on()) and not self.load.stopped.is_set():
            key, data = f"e/{count:06}", self.choose.randbytes(self.choose.choice([100, 3000, 50_000, 200_000]))
            # The time before the request: the age of the object is less.
            at = time.monotonic()
            self.call(f"write of expire/{key}", lambda s3: s3.put_object(Bucket="expire", Key=key, Body=data))
            written.append((key, at, data))
            version = f"v/{self.choose.randrange(20)}"
            self.call(f"write of versions/{version}", lambda s3: s3.put_object(Bucket="versions", Key=version, Body=data))
            self.versions[version] = data
            if count % 10 == 0:
                self.call("upload", lambda s3: s3.create_multipart_upload(Bucket="expire", Key=f"u/{count}"))
            self.load.count(writes=1, size=len(data))
            self.read(*self.choose.choice(written[-20:]))
            count += 1
            # At the pace of the other clients.
            while self.load.operations < self.load.expected * min(count / self.share, 1) and not self.load.stopped.is_set() \
                    and any(writer.is_alive() for writer in self.load.writers):
                time.sleep(0.05)
            if count > self.share:
                time.sleep(0.1)

    def read(self, key, at, data):
        """Checks that an object does not expire before its day is over."""
        def get(s3):
            try:
                return s3.get_object(Bucket="expire", Key=key)["Body"].read()
            except ClientError as error:
                if code(error) == "NoSuchKey":
                    return None
                raise
        found = self.call(f"read of expire/{key}", get)
        if found is None and time.monotonic() < at + self.day:
            self.load.fail(f"expire/{key} has expired after {time.monotonic() - at:.1f} s")
        elif found not in (None, data):
            self.load.fail(f"expire/{key}: wrong bytes")

    def left(self):
        """Returns the numbers of objects, uploads and old versions that the rules have not removed."""
        def count(s3):
            objects = s3.list_objects_v2(Bucket="expire").get("KeyCount", 0)
            uploads = len(s3.list_multipart_uploads(Bucket="expire").get("Uploads", []))
            pages = s3.get_paginator("list_object_versions").paginate(Bucket="versions")
            versions = sum(len(page.get("Versions", [])) for page in pages)
            return objects, uploads, versions - len(self.versions)
        return self.call("listing", count)

    def verify(self):
        for key, data in self.versions.items():
            if self.call(f"read of {key}", lambda s3: s3.get_object(Bucket="versions", Key=key)["Body"].read()) != data:
                self.load.fail(f"versions/{key}: wrong bytes")


def verify_all(load):
    """Reads every byte of every client, and compares the listing. Returns the number of objects and their bytes."""
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        results = list(pool.map(Writer.verify, load.writers))
    expected = set().union(*(keys for keys, _ in results))
    s3 = connect(load.engine.url())
    listed = [one["Key"] for page in s3.get_paginator("list_objects_v2").paginate(Bucket="soak") for one in page.get("Contents", [])]
    if listed != sorted(expected):
        load.fail(f"the listing has {len(listed)} keys in place of {len(expected)}: {sorted(set(listed) ^ expected)[:5]}")
    load.expiring.verify()
    for tool in load.tools:
        tool.verify()
    return len(expected), sum(size for _, size in results)
