"""Container images: one program, the certificates of authorities, and a user without rights. Built with buildah from
nothing, so no registry is needed."""
import os
import subprocess
import tempfile
from pathlib import Path

import archive

# The user of the images. Kubernetes requires a number to see that it is not root.
USER = 65532
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")


def buildah(*arguments):
    return subprocess.run(["buildah", *map(str, arguments)], check=True, capture_output=True, text=True).stdout.strip()


def files(program):
    """Returns the files of an image."""
    passwd = f"root:x:0:0:root:/root:/sbin/nologin\nplimsoll:x:{USER}:{USER}:Plimsoll:/data:/sbin/nologin\n"
    return {
        f"usr/bin/{program.name}": (program.read_bytes(), 0o755),
        "etc/ssl/certs/ca-certificates.crt": (CERTIFICATES.read_bytes(), 0o644),
        "etc/passwd": (passwd.encode(), 0o644),
        "etc/group": (f"root:x:0:\nplimsoll:x:{USER}:\n".encode(), 0o644),
    }


def build(out, release, processor, program):
    """Writes an image as an archive of the Open Container Initiative, which docker, podman and skopeo read."""
    if not CERTIFICATES.exists():
        raise SystemExit(f"dist: {CERTIFICATES} is missing; install ca-certificates")
    path = out / f"{program.name}-{release.version}-{archive.DEBIAN_NAMES[processor]}.oci.tar"
    container = buildah("from", "--arch", archive.DEBIAN_NAMES[processor], "scratch")
    try:
        with tempfile.NamedTemporaryFile(suffix=".tar") as layer:
            layer.write(archive.tar(files(program), release.time))
            layer.flush()
            buildah("add", container, layer.name, "/")
        # The directory of data belongs to the user, so that a volume that is mounted there does, too.
        with tempfile.TemporaryDirectory() as folder:
            os.utime(folder, (release.time, release.time))
            buildah("add", "--chown", f"{USER}:{USER}", "--chmod", "750", container, folder, "/data")
        labels = {"title": program.name, "version": release.version, "revision": release.commit, "licenses": "Apache-2.0"}
        configured = [word for name, value in labels.items()
                      for word in ("--label", f"org.opencontainers.image.{name}={value}")]
        buildah("config", "--user", f"{USER}:{USER}", "--entrypoint", f'["/usr/bin/{program.name}"]', "--cmd", "",
                "--workingdir", "/data", "--env", "HOME=/data", "--arch", archive.DEBIAN_NAMES[processor],
                *configured, container)
        # The archive is made here, because that of buildah has the time of the build.
        with tempfile.TemporaryDirectory() as folder:
            buildah("commit", "--timestamp", release.time, "--format", "oci", container,
                    f"oci:{folder}:{program.name}:{release.version}")
            found = sorted(file for file in Path(folder).rglob("*") if file.is_file())
            path.write_bytes(archive.tar({str(file.relative_to(folder)): (file.read_bytes(), 0o644) for file in found},
                                         release.time))
    finally:
        buildah("rm", container)
    return path
