"""The wheel: the Python package of python/, and the program as its script."""
import os
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

# Platforms of a static binary: glibc and musl.
PLATFORMS = "manylinux2014_{0}.manylinux_2_17_{0}.musllinux_1_1_{0}"


def metadata(root, release):
    """Returns the core metadata (version 2.4) from pyproject.toml."""
    with open(root / "pyproject.toml", "rb") as file:
        project = tomllib.load(file)["project"]
    lines = ["Metadata-Version: 2.4", f"Name: {project['name']}", f"Version: {release.version}",
             f"Summary: {project['description']}", f"License-Expression: {project['license']}", "License-File: LICENSE",
             f"Requires-Python: {project['requires-python']}", "Description-Content-Type: text/markdown"]
    lines += [f"Classifier: {name}" for name in project["classifiers"]]
    lines += [f"Requires-Dist: {name}" for name in project["dependencies"]]
    for extra, names in project["optional-dependencies"].items():
        lines += [f"Provides-Extra: {extra}"] + [f"Requires-Dist: {name}; extra == '{extra}'" for name in names]
    return "\n".join(lines) + "\n\n" + (root / project["readme"]).read_text()


def build(root, out, release, processor, program):
    """Writes the wheel."""
    tag = f"py3-none-{PLATFORMS.format(processor)}"
    top = f"plimsoll-{release.version}"
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        files = {path.relative_to(root / "python"): path.read_bytes()
                 for path in sorted((root / "python" / "plimsoll").rglob("*"))
                 if path.is_file() and "__pycache__" not in path.parts}
        information = "".join(f"Tag: py3-none-{platform}\n" for platform in PLATFORMS.format(processor).split("."))
        files |= {
            Path(f"{top}.dist-info/METADATA"): metadata(root, release).encode(),
            Path(f"{top}.dist-info/WHEEL"): f"Wheel-Version: 1.0\nGenerator: plimsoll\nRoot-Is-Purelib: false\n{information}".encode(),
            Path(f"{top}.dist-info/licenses/LICENSE"): (root / "LICENSE").read_bytes(),
            Path(f"{top}.data/scripts/plimsoll"): program.read_bytes(),
        }
        for name, data in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)
            (folder / name).chmod(0o755 if name.parent.name == "scripts" else 0o644)
        # `wheel pack` writes the record, in a fixed order and with the time of SOURCE_DATE_EPOCH.
        environment = dict(os.environ, SOURCE_DATE_EPOCH=str(release.time))
        subprocess.run([sys.executable, "-m", "wheel", "pack", str(folder), "--dest-dir", str(out)], env=environment,
                       check=True, stdout=subprocess.DEVNULL)
    return out / f"{top}-{tag}.whl"
