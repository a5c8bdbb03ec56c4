#!/usr/bin/env python3
"""Makes docs/report.png: the top of the HTML report of a real run, as an optimized image.

Starts two servers with different injected latencies, measures both in turns, opens the report in headless Chromium, and
reduces the picture to a palette. Needs chromium and Pillow: `make screenshot`, about a minute and a half.
"""

import base64
import os
import pathlib
import subprocess
import sys
import tempfile
import time

from PIL import Image

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "clients"))

from browser import Page  # noqa: E402

PLIMSOLL = os.environ.get("PLIMSOLL", str(ROOT / "target/release/plimsoll"))
KEYS = {"AWS_ACCESS_KEY_ID": "screenshot", "AWS_SECRET_ACCESS_KEY": "screenshot-only"}
SERVERS = {
    "alpha": "latency=lognormal(4ms;0.5)",
    "beta": "latency=lognormal(5ms;0.8)",
}
EXPERIMENT = """
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


def measure(directory: str) -> pathlib.Path:
    """Measures both servers, and returns the path of the report."""
    servers, named = [], ""
    try:
        for name, faults in SERVERS.items():
            server, address = start(faults)
            servers.append(server)
            named += f'[store.{name}]\nurl = "s3://bench?endpoint={address}"\n'
        pathlib.Path(directory, "plimsoll.toml").write_text(named)
        pathlib.Path(directory, "stores.toml").write_text(EXPERIMENT)
        subprocess.run([PLIMSOLL, "run", "stores.toml", "--create-bucket", "--out", "runs"], check=True, cwd=directory,
                       env={**os.environ, **KEYS}, stdout=subprocess.DEVNULL)
    finally:
        for server in servers:
            server.terminate()
            server.wait()
    return next(pathlib.Path(directory, "runs").glob("*/report.html"))


def main() -> int:
    with tempfile.TemporaryDirectory() as directory:
        report = measure(directory)
        picture = pathlib.Path(directory) / "report.png"
        page = Page()
        try:
            page.call("Emulation.setScrollbarsHidden", hidden=True)
            page.open(report.as_uri(), WIDTH, HEIGHT)
            until = time.monotonic() + 30
            while not page.run(DRAWN):
                if time.monotonic() > until:
                    raise TimeoutError("the report did not draw its charts within 30 s")
                time.sleep(0.1)
            shot = page.call("Page.captureScreenshot", format="png")
            picture.write_bytes(base64.b64decode(shot["data"]))
        finally:
            page.close()
        image = Image.open(picture).convert("RGB").quantize(64, dither=Image.Dither.NONE)
        out = ROOT / "docs" / "report.png"
        image.save(out, optimize=True)
        print(f"{out.relative_to(ROOT)}: {out.stat().st_size // 1024} KiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
