#!/usr/bin/env python3
"""Makes docs/report.png: the top of the HTML report of a real run, as an optimized image.

Runs `plimsoll run quickstart` into a temporary directory, opens the report in headless Chromium, and quantizes the picture to
a palette. Needs chromium and Pillow: `make screenshot`.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

from PIL import Image

ROOT = pathlib.Path(__file__).resolve().parent.parent
PLIMSOLL = os.environ.get("PLIMSOLL", str(ROOT / "target/release/plimsoll"))
WIDTH, HEIGHT, SCALE = 1280, 1400, 1


def main() -> int:
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run([PLIMSOLL, "run", "quickstart", "--out", directory], check=True, stdout=subprocess.DEVNULL)
        report = next(pathlib.Path(directory).glob("*/report.html"))
        picture = pathlib.Path(directory) / "report.png"
        subprocess.run(
            ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
             f"--force-device-scale-factor={SCALE}", f"--window-size={WIDTH},{HEIGHT}", "--virtual-time-budget=5000",
             f"--screenshot={picture}", report.as_uri()],
            check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        image = Image.open(picture).convert("RGB").quantize(64, dither=Image.Dither.NONE)
        out = ROOT / "docs" / "report.png"
        image.save(out, optimize=True)
        print(f"{out.relative_to(ROOT)}: {out.stat().st_size // 1024} KiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
