"""Programs of others that benches/soak.py runs against a gateway: the AWS CLI, rclone and restic."""
import os
import random
import shutil
import subprocess
import time

from soak_engines import ACCESS, SECRET, SoakFailed, environment
from soak_load import MIB, Client


class Tool(Client):
    """A program that writes one tree of files after the other, and keeps the last two."""

    program, rounds = "", 2

    def __init__(self, load):
        super().__init__(load, self.program)
        self.base = os.path.join(load.engine.base, self.program)
        self.count = 0

    def tree(self, number):
        """Creates the files of a round, whose sizes are around the limits of packing and of parts."""
        folder, choose = os.path.join(self.base, str(number)), random.Random(f"{self.load.options.seed}/{self.name}/{number}")
        for name, size in (("empty", 0), ("a b/c+d.txt", 10), ("näme/%25 & =.bin", 5000), ("deep/er/packed", 60_000),
                           ("blob", 300_000), ("large", 9 * MIB + number), *((f"many/{n}", choose.randrange(1, 20_000)) for n in range(10))):
            path = os.path.join(folder, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(choose.randbytes(size))
        return folder

    def execute(self, *words):
        """Executes the program until it succeeds, and again if its gateway does not serve any more."""
        while True:
            began, url = time.monotonic(), self.engine.url()
            words_now, env = self.command(url)
            process = subprocess.Popen([*words_now, *words], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                       stderr=subprocess.STDOUT, text=True)
            gone = 0
            while True:
                try:
                    out, _ = process.communicate(timeout=1)
                    break
                except subprocess.TimeoutExpired:
                    gone = gone + 1 if url not in [one.url for one in self.engine.serving] else 0
                    if gone >= 10 or self.load.stopped.is_set():
                        process.kill()
            if process.returncode == 0:
                self.load.count(writes=1)
                return out
            self.load.excuse(began, f"{self.program} {words[0]} {words[1] if len(words) > 1 else ''}", out.strip()[-500:])
            if self.load.stopped.is_set():
                raise SoakFailed(f"{self.program} was ended")
            time.sleep(0.5)

    def work(self):
        self.begin()
        while self.count < self.rounds or self.goes_on():
            if self.load.stopped.is_set():
                return
            self.write(self.tree(self.count), self.count)
            if self.count >= 2:
                self.remove(self.count - 2)
                shutil.rmtree(os.path.join(self.base, str(self.count - 2)))
            self.count += 1
            if self.count >= self.rounds:
                self.pause()

    def pause(self):
        end = time.monotonic() + 10
        while time.monotonic() < end and self.goes_on():
            time.sleep(0.2)

    def begin(self):
        pass

    def verify(self):
        """Reads everything with the program itself."""
        for number in range(max(self.count - 2, 0), self.count):
            back = os.path.join(self.base, f"back-{number}")
            self.read(number, back)
            if subprocess.run(["diff", "-r", os.path.join(self.base, str(number)), back], capture_output=True).returncode != 0:
                self.load.fail(f"{self.program}: the files of round {number} differ")


class Aws(Tool):
    program = "aws"

    def command(self, url):
        return ["aws", "--endpoint-url", url, "s3"], environment(AWS_MAX_ATTEMPTS="2")

    def write(self, folder, number):
        self.execute("cp", "--recursive", "--only-show-errors", folder, f"s3://aws/{number}/")

    def remove(self, number):
        self.execute("rm", "--recursive", "--only-show-errors", f"s3://aws/{number}/")

    def read(self, number, back):
        self.execute("cp", "--recursive", "--only-show-errors", f"s3://aws/{number}/", back)


class Rclone(Tool):
    program = "rclone"

    def command(self, url):
        env = environment(RCLONE_CONFIG_SOAK_TYPE="s3", RCLONE_CONFIG_SOAK_PROVIDER="Other", RCLONE_CONFIG_SOAK_ENDPOINT=url,
                          RCLONE_CONFIG_SOAK_ACCESS_KEY_ID=ACCESS, RCLONE_CONFIG_SOAK_SECRET_ACCESS_KEY=SECRET,
                          RCLONE_CONFIG_SOAK_FORCE_PATH_STYLE="true", RCLONE_CONFIG_SOAK_UPLOAD_CUTOFF="5Mi",
                          RCLONE_CONFIG_SOAK_CHUNK_SIZE="5Mi")
        return ["rclone", "--config", "/dev/null", "--retries", "1", "--low-level-retries", "3"], env

    def write(self, folder, number):
        self.execute("copy", folder, f"soak:rclone/{number}")
        self.execute("check", "--download", folder, f"soak:rclone/{number}")

    def remove(self, number):
        self.execute("delete", f"soak:rclone/{number}")

    def read(self, number, back):
        self.execute("copy", f"soak:rclone/{number}", back)


class Restic(Tool):
    program = "restic"

    def command(self, url):
        return ["restic"], environment(RESTIC_PASSWORD="password", RESTIC_REPOSITORY=f"s3:{url}/restic/backup",
                                       RESTIC_CACHE_DIR=os.path.join(self.base, "cache"), GOMAXPROCS="2")

    def begin(self):
        # A repetition would fail if an answer was lost.
        while True:
            began = time.monotonic()
            words, env = self.command(self.engine.url())
            if any(subprocess.run([*words, *more], env=env, capture_output=True, timeout=600).returncode == 0
                   for more in (["init"], ["cat", "config"])):
                return
            self.load.excuse(began, "restic init", "neither creates a repository nor finds one")
            if self.load.stopped.is_set():
                return
            time.sleep(0.5)

    def write(self, folder, number):
        self.execute("backup", "--tag", str(number), folder)

    def remove(self, number):
        # A program that was ended leaves its lock.
        self.execute("unlock", "--remove-all")
        self.execute("forget", "--group-by", "host", "--keep-tag", str(number + 1), "--keep-tag", str(number + 2), "--prune")

    def read(self, number, back):
        self.execute("unlock", "--remove-all")
        self.execute("check", "--read-data")
        self.execute("restore", "latest", "--tag", str(number), "--target", back)
        whole = os.path.join(back, os.path.join(self.base, str(number)).lstrip("/"))
        os.rename(whole, f"{back}-files")
        shutil.rmtree(back)
        os.rename(f"{back}-files", back)


def installed():
    """Returns the programs that are installed."""
    return [tool for tool in (Aws, Rclone, Restic) if shutil.which(tool.program)]
