#!/usr/bin/env python3
"""Builds the artifacts of a release: `make dist`. Two builds of one commit have identical checksums.

    target/artifacts/
        plimsoll-VERSION-x86_64-linux.tar.gz, plimsoll-VERSION-aarch64-linux.tar.gz
        plimsoll_VERSION_amd64.deb, plimsoll_VERSION_arm64.deb
        plimsoll-VERSION-py3-none-….whl
        plimsoll-VERSION-amd64.oci.tar, plimsoll-gateway-VERSION-amd64.oci.tar, and for arm64
        plimsoll-VERSION.tgz, plimsoll-gateway-VERSION.tgz    (Helm charts)
        plimsoll-VERSION.cdx.json
        SHA256SUMS

The binaries are static: musl, compiled by Cargo with zig as the C compiler and the linker. An artifact whose tool is not
installed is an error, unless --only selects others.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import archive
import debian
import image
import sbom
import wheel

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = ("plimsoll", "plimsoll-gateway")
# Kinds of artifacts, and the program that each needs besides Cargo.
TOOLS = {"tar": "cargo-zigbuild", "deb": "dpkg-deb", "wheel": "cargo-zigbuild", "image": "buildah", "chart": "git",
         "sbom": "cargo-cyclonedx"}
KINDS = tuple(TOOLS)
WITHOUT_BINARIES = {"chart", "sbom"}


def output(*command):
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


class Release:
    """What is released: the version, and the commit with its date."""

    def __init__(self):
        with open(ROOT / "Cargo.toml", "rb") as file:
            self.version = tomllib.load(file)["workspace"]["package"]["version"]
        self.commit = output("git", "rev-parse", "HEAD")
        self.date = output("git", "log", "-1", "--format=%cs")
        # The time of all files in the artifacts.
        self.time = int(output("git", "log", "-1", "--format=%ct"))


UNUSED_COMPRESSORS = ["GREEDY", "LAZY", "LAZY2", "BTLAZY2", "BTOPT", "BTULTRA"]


def registries():
    """Returns the directories that have the sources of the crates."""
    packages = json.loads(output("cargo", "metadata", "--locked", "--format-version", "1"))["packages"]
    return sorted({str(Path(package["manifest_path"]).parent.parent) for package in packages
                   if (package["source"] or "").startswith("registry+")})


def cargo(arguments, release, target):
    """Runs Cargo so that no path of this machine is in the result."""
    home = os.environ.get("CARGO_HOME", str(Path.home() / ".cargo"))
    # Cargo does not strip the programs of packages that have an own section in the profile.
    # Later names apply first. Those of the crates depend on the address of the registry.
    names = {str(ROOT): "/plimsoll", home: "/cargo", **dict.fromkeys(registries(), "/crates")}
    flags = " ".join(["-C strip=symbols", *(f"--remap-path-prefix={path}={name}" for path, name in names.items())])
    maps = " ".join(f"-ffile-prefix-map={path}={name}" for path, name in names.items())
    # Only the fastest levels of zstd are used.
    unused = " ".join(f"-DZSTD_EXCLUDE_{name}_BLOCK_COMPRESSOR" for name in UNUSED_COMPRESSORS)
    # No panic passes through a function in C.
    small = "-fno-asynchronous-unwind-tables -fno-unwind-tables"
    environment = dict(os.environ, RUSTFLAGS=flags, CFLAGS=f"{maps} {unused} {small}", CXXFLAGS=maps, CARGO_INCREMENTAL="0",
                       PLIMSOLL_COMMIT=release.commit, PLIMSOLL_COMMIT_DATE=release.date,
                       SOURCE_DATE_EPOCH=str(release.time))
    subprocess.run(["cargo", *arguments, "--locked", *(["--target", target] if target else [])], cwd=ROOT,
                   env=environment, check=True)


def binaries(release, processor):
    """Builds both programs, and returns their paths."""
    target = f"{processor}-unknown-linux-musl"
    packages = [word for program in PROGRAMS for word in ("-p", program)]
    cargo(["zigbuild", "--profile", "dist", *packages], release, target)
    return [ROOT / "target" / target / "dist" / program for program in PROGRAMS]


def documents():
    """Generates man pages and completions, and returns their directory."""
    generated = ROOT / "target" / "generated"
    subprocess.run(["cargo", "run", "--locked", "--quiet", "-p", "plimsoll-package", "--", str(generated)], cwd=ROOT,
                   check=True)
    return generated


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=KINDS, help="build only this kind of artifact; repeatable")
    parser.add_argument("--processor", action="append", choices=archive.DEBIAN_NAMES, help="default: both")
    parser.add_argument("--out", type=Path, default=ROOT / "target" / "artifacts")
    arguments = parser.parse_args()
    kinds, release = arguments.only or KINDS, Release()
    if output("git", "status", "--porcelain", "--untracked-files=no"):
        print("dist: the tree has changes that are not committed; the artifacts name the last commit", file=sys.stderr)
    missing = sorted({TOOLS[kind] for kind in kinds if not shutil.which(TOOLS[kind])})
    if missing:
        sys.exit(f"dist: {', '.join(missing)}: not installed; install it, or select other artifacts with --only")
    arguments.out.mkdir(parents=True, exist_ok=True)
    made = []
    generated = documents() if {"tar", "deb"} & set(kinds) else None
    for processor in arguments.processor or archive.DEBIAN_NAMES:
        programs = binaries(release, processor) if set(kinds) - WITHOUT_BINARIES else []
        if "tar" in kinds:
            made.append(archive.build(ROOT, arguments.out, release, processor, programs, generated))
        if "deb" in kinds:
            made.append(debian.build(ROOT, arguments.out, release, processor, programs, generated))
        if "wheel" in kinds:
            made.append(wheel.build(ROOT, arguments.out, release, processor, programs[0]))
        if "image" in kinds:
            made += [image.build(arguments.out, release, processor, program) for program in programs]
    if "chart" in kinds:
        made += [archive.chart(folder, arguments.out, release) for folder in sorted((ROOT / "infra/helm").glob("plimsoll*"))]
    if "sbom" in kinds:
        made.append(sbom.build(ROOT, arguments.out, release))
    archive.checksums(arguments.out, made)
    for path in made:
        print(f"{path.stat().st_size / 1e6:7.1f} MB  {path.relative_to(ROOT) if path.is_relative_to(ROOT) else path}")


if __name__ == "__main__":
    main()
