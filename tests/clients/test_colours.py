"""The colours of charts are distinguishable with every kind of colour vision."""
import itertools
import os
import re

import pytest

from support import ROOT

# Simulations of dichromacy: Machado, Oliveira, Fernandes, "A Physiologically-based Model for Simulation of Color Vision
# Deficiency", IEEE TVCG 15(6), 2009, severity 1.0, on linear RGB.
VISION = {
    "normal": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}
# Minimum CIE76 difference between two colours of a chart. A difference of 2.3 is just noticeable.
CLEAR = 15


def palette():
    with open(os.path.join(ROOT, "crates/common/document/src/template/kit.js")) as file:
        return re.findall(r"#[0-9a-f]{6}", re.search(r"const PALETTE = \[(.*)\]", file.read())[1])


def linear(colour):
    values = [int(colour[at:at + 2], 16) / 255 for at in (1, 3, 5)]
    return [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in values]


def lab(rgb):
    """Returns the CIELAB coordinates of linear sRGB, with the white D65."""
    x, y, z = (sum(part * value for part, value in zip(row, rgb)) for row in (
        (0.4124564, 0.3575761, 0.1804375), (0.2126729, 0.7151522, 0.0721750), (0.0193339, 0.1191920, 0.9503041)))
    x, y, z = (t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116 for t in (x / 0.95047, y, z / 1.08883))
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def seen(colour, vision):
    rgb = linear(colour)
    return lab([min(1, max(0, sum(part * value for part, value in zip(row, rgb)))) for row in VISION[vision]])


def difference(first, second, vision):
    return sum((a - b) ** 2 for a, b in zip(seen(first, vision), seen(second, vision))) ** 0.5


@pytest.mark.parametrize("vision", VISION)
def test_the_colours_of_charts_differ(vision):
    colours = palette()
    assert len(colours) == 8
    close = {pair: difference(*pair, vision) for pair in itertools.combinations(colours, 2)}
    assert min(close.values()) >= CLEAR, min(close.items(), key=lambda entry: entry[1])


def test_the_simulation_finds_colours_that_look_alike():
    """The last two colours before: orange and brown, for people without red cones."""
    assert difference("#d55e00", "#8c6d00", "protanopia") < 3 < CLEAR < difference("#d55e00", "#8c6d00", "normal")
