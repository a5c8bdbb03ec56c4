"""The Debian package: programs, unit, settings, man pages and completions."""
import hashlib
import os
import subprocess
import tempfile
from pathlib import Path

import archive

COMPLETIONS = {
    "bash": "share/bash-completion/completions/{}",
    "zsh": "share/zsh/vendor-completions/{}",
    "fish": "share/fish/vendor_completions.d/{}",
}
# Files that dpkg does not replace if an administrator has changed them.
SETTINGS = ("etc/plimsoll/gateway.toml",)


def content(root, programs, generated):
    """Returns the files of the package."""
    sources = root / "packaging" / "debian"
    files = archive.content(root, programs, generated, "share/man/man1/{}.gz", COMPLETIONS)
    files = {f"usr/{path}": (archive.compressed(data) if path.endswith(".gz") else data, mode)
             for path, (data, mode) in files.items()}
    documents = {
        "etc/plimsoll/gateway.toml": sources / "gateway.toml",
        "usr/lib/systemd/system/plimsoll-gateway.service": sources / "plimsoll-gateway.service",
        "usr/share/doc/plimsoll/README.Debian": sources / "README.Debian",
        "usr/share/doc/plimsoll/copyright": root / "LICENSE",
        "usr/share/doc/plimsoll/tiers.md": root / "docs" / "tiers.md",
    }
    return files | {path: (source.read_bytes(), 0o644) for path, source in documents.items()}


def administration(root, release, name, files):
    """Returns the files that describe the package to dpkg."""
    sources = root / "packaging" / "debian"
    kibibytes = sum(-(-len(data) // 1024) for data, _ in files.values())
    control = (sources / "control").read_text().replace("VERSION", release.version)
    control = control.replace("ARCHITECTURE", name).replace("KIBIBYTES", str(kibibytes))
    sums = "".join(f"{hashlib.md5(data).hexdigest()}  {path}\n" for path, (data, _) in sorted(files.items()))
    return {
        "DEBIAN/control": (control.encode(), 0o644),
        "DEBIAN/conffiles": ("".join(f"/{path}\n" for path in SETTINGS).encode(), 0o644),
        "DEBIAN/md5sums": (sums.encode(), 0o644),
        "DEBIAN/postinst": ((sources / "postinst").read_bytes(), 0o755),
        "DEBIAN/prerm": ((sources / "prerm").read_bytes(), 0o755),
    }


def build(root, out, release, processor, programs, generated):
    """Writes the package."""
    name = archive.DEBIAN_NAMES[processor]
    files = content(root, programs, generated)
    path = out / f"plimsoll_{release.version}_{name}.deb"
    with tempfile.TemporaryDirectory() as folder:
        for place, (data, mode) in (files | administration(root, release, name, files)).items():
            file = Path(folder) / place
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
            file.chmod(mode)
        # Whatever modes new directories have on this machine.
        for directory in (folder, *(path for path, _, _ in os.walk(folder))):
            os.chmod(directory, 0o755)
        # One thread, because the bytes depend on how the data is split.
        subprocess.run(["dpkg-deb", "--root-owner-group", "--threads-max=1", "-Zxz", "--build", folder, str(path)],
                       env=dict(os.environ, SOURCE_DATE_EPOCH=str(release.time)), check=True, stdout=subprocess.DEVNULL)
    return path
