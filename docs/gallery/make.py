#!/usr/bin/env python3
"""Makes the runs and pictures of the gallery, and docs/report.png: `make gallery`, six minutes on a quiet machine.

    docs/gallery/NAME/        the run directory, without its report: `plimsoll report` writes it again
    docs/gallery/NAME.png     the top of the report, as an optimized image

Each run measures servers of this machine with injected faults, which are its known true values. Needs Chromium and Pillow.
"""

import base64
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

from PIL import Image

ROOT = pathlib.Path(__file__).resolve().parents[2]
GALLERY = ROOT / "docs" / "gallery"
sys.path.insert(0, str(ROOT / "tests" / "clients"))

from browser import Page  # noqa: E402

PLIMSOLL = os.environ.get("PLIMSOLL", str(ROOT / "target/release/plimsoll"))
KEYS = {"AWS_ACCESS_KEY_ID": "gallery", "AWS_SECRET_ACCESS_KEY": "gallery-only"}
TWO_STORES = """
name = "two stores"
stores = ["alpha", "beta"]

[[phase]]
name = "load"
role = "prepare"
operations = { put = 1 }
objects = { count = 500, size = "64KiB" }

[[phase]]
name = "get"
operations = { get = 1 }
objects = { from = "load" }
rate = "300/s"
arrival = "poisson"
duration = "30s"
"""
# Name of a run: the faults of its servers by name, and its arguments.
RUNS = {
    "quickstart": ({}, ["quickstart"]),
    "two-stores": ({"alpha": "latency=lognormal(4ms;0.5)", "beta": "latency=lognormal(5ms;0.8)"}, ["two-stores.toml"]),
    "stalls": ({"stalling": "latency=5ms,stall=1s/10s"},
               ["get", "--store", "stalling", "--rate", "500/s", "--duration", "60s", "--size", "1KiB"]),
    "capacity": ({"limited": "latency=10ms,capacity=400/s"},
                 ["capacity", "--store", "limited", "--slo", "get.p99 < 50ms", "--within", "90s", "--from", "100/s"]),
    "matrix": ({"store": "latency=lognormal(3ms;0.4)"},
               ["get", "--store", "store", "--sweep", "size=1KiB,64KiB,1MiB", "--sweep", "concurrency=1,4,16",
                "--duration", "5s"]),
    "errors": ({"failing": "latency=lognormal(4ms;0.5),error=0.02,slow=80ms@15s+10s"},
               ["mixed", "--store", "failing", "--rate", "300/s", "--duration", "40s", "--slo", "get.p99 < 25ms",
                "--slo", "errors < 0.1%"]),
}
WIDTH, HEIGHT = 1280, 1200
# The page draws a chart when it comes into view.
DRAWN = """[...document.querySelectorAll('article[id]')].filter((card) => card.getBoundingClientRect().top < innerHeight)
    .every((card) => card.querySelector('canvas, svg'))"""


def start(faults: str) -> tuple[subprocess.Popen, str]:
    """Starts a server, and returns it and its address."""
    server = subprocess.Popen(
        [PLIMSOLL, "serve", "--listen", "127.0.0.1:0", "--inject", faults], stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PLIMSOLL_ACCESS_KEY": KEYS["AWS_ACCESS_KEY_ID"],
             "PLIMSOLL_SECRET_KEY": KEYS["AWS_SECRET_ACCESS_KEY"]})
    return server, server.stdout.readline().split()[-1]


def measure(name: str, directory: pathlib.Path) -> pathlib.Path:
    """Makes a run, and returns its directory."""
    faults, arguments = RUNS[name]
    directory.mkdir()
    servers, named = [], ""
    try:
        for store, injected in faults.items():
            server, address = start(injected)
            servers.append(server)
            named += f'[store.{store}]\nurl = "s3://bench?endpoint={address}"\n'
        (directory / "plimsoll.toml").write_text(named)
        (directory / "two-stores.toml").write_text(TWO_STORES)
        # The run records its command line.
        (directory / "bin").mkdir()
        (directory / "bin/plimsoll").symlink_to(PLIMSOLL)
        create = ["--create-bucket"] if faults else []
        done = subprocess.run(["plimsoll", "run", *arguments, *create, "--out", "runs"], cwd=directory,
                              env={**os.environ, **KEYS, "PATH": f"{directory}/bin:{os.environ['PATH']}"},
                              stdout=subprocess.DEVNULL)
        # A missed objective is a result.
        assert done.returncode in (0, 1), done
    finally:
        for server in servers:
            server.terminate()
            server.wait()
    return next((directory / "runs").iterdir())


def photograph(page: Page, report: pathlib.Path, out: pathlib.Path) -> None:
    """Saves the top of a report as an image with few colours."""
    page.open(report.as_uri(), WIDTH, HEIGHT)
    until = time.monotonic() + 30
    while not page.run(DRAWN):
        if time.monotonic() > until:
            raise TimeoutError("the report did not draw its charts within 30 s")
        time.sleep(0.1)
    shot = page.call("Page.captureScreenshot", format="png")
    with tempfile.TemporaryFile() as picture:
        picture.write(base64.b64decode(shot["data"]))
        image = Image.open(picture).convert("RGB").quantize(64, dither=Image.Dither.NONE)
        image.save(out, optimize=True)
    print(f"{out.relative_to(ROOT)}: {out.stat().st_size // 1024} KiB")


def main() -> None:
    names = sys.argv[1:] or RUNS
    with tempfile.TemporaryDirectory() as directory:
        runs = {name: measure(name, pathlib.Path(directory, name)) for name in names}
        # The browser starts after the measurements, because it would disturb them.
        page = Page()
        try:
            page.call("Emulation.setScrollbarsHidden", hidden=True)
            for name, run in runs.items():
                photograph(page, run / "report.html", GALLERY / f"{name}.png")
                (run / "report.html").unlink()
                shutil.rmtree(GALLERY / name, ignore_errors=True)
                shutil.copytree(run, GALLERY / name)
        finally:
            page.close()
    shutil.copy(GALLERY / "two-stores.png", ROOT / "docs/report.png")


if __name__ == "__main__":
    main()
