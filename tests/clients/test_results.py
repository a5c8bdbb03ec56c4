"""The results: every run is verified, and every page follows from the raw data."""
import subprocess
import sys

import pytest

from support import PLIMSOLL, ROOT

sys.path.insert(0, f"{ROOT}/results")
import pages  # noqa: E402
import servers  # noqa: E402

pages.PLIMSOLL = PLIMSOLL


def test_every_figure_follows_from_the_raw_data():
    assert pages.check() == []


def test_every_server_of_the_results_has_an_objections_file_and_no_secret_in_its_data():
    assert pages.servers()
    for name in pages.servers():
        assert (pages.HERE / name / "objections.md").read_text().startswith("# Objections: ")
        for path in (pages.HERE / name).rglob("*.json"):
            assert servers.SECRET_KEY not in path.read_text(), path


def test_the_cpu_time_of_a_process_includes_its_children():
    """A shell whose child works, and whose ended child has worked."""
    busy = [sys.executable, "-c", "import time\nwhile time.process_time() < 0.5: pass"]
    shell = subprocess.Popen(["sh", "-c", '"$@"; echo ended; "$@" & wait; echo ended; read line', "sh", *busy],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert shell.stdout.readline() == "ended\n"
    assert servers.cpu_s(shell.pid) >= 0.4
    assert shell.stdout.readline() == "ended\n"
    assert servers.cpu_s(shell.pid) >= 0.8
    shell.communicate("\n")


def test_cpu_time_at_a_moment_is_interpolated():
    samples = [(10.0, 1.0), (10.1, 1.2), (10.2, 1.2)]
    assert pages.between(samples, 10.05) == pytest.approx(1.1)
    with pytest.raises(ValueError):
        pages.between(samples, 11)


def test_numbers_have_three_digits():
    written = [pages.three_digits(value) for value in (None, 0.0123, 0.5, 12.34, 1234.5)]
    assert written == ["-", "0.0123", "0.50", "12.3", "1,234"]
    assert pages.spread([1.0, 3.0, 2.0]) == "2.00 (1.00 to 3.00)"
    assert pages.spread([1.0, None, 2.0]) == "-"
