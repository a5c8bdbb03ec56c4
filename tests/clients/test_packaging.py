"""The artifacts that `make dist` makes from programs: packaging/."""
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from support import PLIMSOLL, ROOT

sys.path.insert(0, os.path.join(ROOT, "packaging"))
import archive  # noqa: E402
import debian  # noqa: E402

RELEASE = SimpleNamespace(version="1.2.3", commit="0" * 40, date="2026-01-02", time=1_767_312_000)


@pytest.fixture
def made(tmp_path):
    """Programs, and the generated pages and completions."""
    generated = tmp_path / "generated"
    subprocess.run([os.path.join(os.path.dirname(PLIMSOLL), "plimsoll-package"), generated], check=True)
    programs = [tmp_path / name for name in ("plimsoll", "plimsoll-gateway")]
    for program in programs:
        program.write_bytes(b"#!/bin/sh\necho " + program.name.encode() + b"\n")
    return programs, generated


def built(build, made, out, umask):
    """Returns the bytes of an artifact that is built with another mask of modes, as on another machine."""
    out.mkdir()
    before = os.umask(umask)
    try:
        path = build(Path(ROOT), out, RELEASE, "x86_64", *made)
    finally:
        os.umask(before)
    return path, path.read_bytes()


def test_two_archives_of_the_same_programs_are_identical(made, tmp_path):
    path, first = built(archive.build, made, tmp_path / "a", 0o022)
    assert built(archive.build, made, tmp_path / "b", 0o077)[1] == first
    with tarfile.open(path) as found:
        modes = {entry.name: (entry.mode, entry.mtime, entry.uid) for entry in found.getmembers()}
    top = "plimsoll-1.2.3-x86_64-linux"
    assert modes[f"{top}/bin/plimsoll"] == (0o755, RELEASE.time, 0)
    assert {f"{top}/{name}" for name in ("LICENSE", "man/plimsoll-run.1", "completions/zsh/_plimsoll")} <= set(modes)


@pytest.mark.skipif(not shutil.which("dpkg-deb"), reason="dpkg-deb is not installed")
def test_two_debian_packages_of_the_same_programs_are_identical_and_keep_settings(made, tmp_path):
    path, first = built(debian.build, made, tmp_path / "a", 0o022)
    assert built(debian.build, made, tmp_path / "b", 0o077)[1] == first
    listed = subprocess.run(["dpkg-deb", "--contents", path], check=True, capture_output=True, text=True).stdout
    for name in ("./usr/bin/plimsoll-gateway", "./usr/lib/systemd/system/plimsoll-gateway.service",
                 "./usr/share/man/man1/plimsoll-gateway.1.gz", "./usr/share/bash-completion/completions/plimsoll"):
        assert f" {name}\n" in listed
    field = subprocess.run(["dpkg-deb", "--field", path, "Version", "Architecture"], check=True, capture_output=True, text=True)
    assert "1.2.3" in field.stdout and "amd64" in field.stdout
    folder = tmp_path / "control"
    subprocess.run(["dpkg-deb", "--control", path, folder], check=True)
    assert (folder / "conffiles").read_text() == "/etc/plimsoll/gateway.toml\n"
    for script in ("postinst", "prerm"):
        subprocess.run(["sh", "-n", folder / script], check=True)
