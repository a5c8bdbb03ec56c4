"""Archives whose bytes depend only on their content: sorted, with the time of the commit and without users."""
import gzip
import hashlib
import io
import tarfile

# Processors by the names of Rust, with those of Debian and of container images.
DEBIAN_NAMES = {"x86_64": "amd64", "aarch64": "arm64"}

DOCUMENTS = ("README.md", "LICENSE", "CHANGELOG.md")


def content(root, programs, generated, man, completions):
    """Returns the files of a package: paths with their bytes and modes. `man` and `completions` are formats of paths."""
    files = {}
    for program in programs:
        files[f"bin/{program.name}"] = (program.read_bytes(), 0o755)
    for page in sorted((generated / "man").iterdir()):
        files[man.format(page.name)] = (page.read_bytes(), 0o644)
    for shell in sorted((generated / "completions").iterdir()):
        for script in sorted(shell.iterdir()):
            files[completions[shell.name].format(script.name)] = (script.read_bytes(), 0o644)
    return files


def compressed(data):
    out = io.BytesIO()
    with gzip.GzipFile(fileobj=out, mode="wb", compresslevel=9, mtime=0) as file:
        file.write(data)
    return out.getvalue()


def tar(files, time, top=""):
    """Returns an archive of files, with their directories."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as archive:
        directories = set()
        for path in files:
            parts = (top + path).split("/")[:-1]
            directories |= {"/".join(parts[:end]) for end in range(1, len(parts) + 1)}
        for path in sorted(directories | {top + path for path in files}):
            entry = tarfile.TarInfo(path)
            entry.mtime = time
            data = None
            if path in directories:
                entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            else:
                data, entry.mode = files[path.removeprefix(top)]
                entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data) if data is not None else None)
    return out.getvalue()


def build(root, out, release, processor, programs, generated):
    """Writes the archive that a user unpacks."""
    completions = {shell: f"completions/{shell}/{{}}" for shell in ("bash", "zsh", "fish")}
    files = content(root, programs, generated, "man/{}", completions)
    files |= {name: ((root / name).read_bytes(), 0o644) for name in DOCUMENTS}
    name = f"plimsoll-{release.version}-{processor}-linux"
    path = out / f"{name}.tar.gz"
    path.write_bytes(compressed(tar(files, release.time, f"{name}/")))
    return path


def chart(folder, out, release):
    """Writes a Helm chart as `helm install` reads it."""
    files = {f"{folder.name}/{path.relative_to(folder)}": (path.read_bytes(), 0o644)
             for path in sorted(folder.rglob("*")) if path.is_file()}
    path = out / f"{folder.name}-{release.version}.tgz"
    path.write_bytes(compressed(tar(files, release.time)))
    return path


def checksums(out, made):
    """Writes the SHA-256 of every artifact, in the format of sha256sum."""
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(made)]
    (out / "SHA256SUMS").write_text("".join(lines))
