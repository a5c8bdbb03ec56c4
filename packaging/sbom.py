"""The list of all components in the programs (CycloneDX 1.5), written by cargo-cyclonedx from the lock file."""
import json
import os
import subprocess
import uuid


def build(root, out, release):
    """Writes the list: the components of both programs."""
    environment = dict(os.environ, SOURCE_DATE_EPOCH=str(release.time))
    subprocess.run(["cargo", "cyclonedx", "--format", "json", "--spec-version", "1.5", "--override-filename", "bom",
                    "--target", "x86_64-unknown-linux-musl", "--quiet"], cwd=root, env=environment, check=True)
    merged, programs = None, []
    for found in sorted(root.glob("crates/*/*/bom.json")):
        document = json.loads(found.read_text())
        found.unlink()
        if found.parent.name not in ("plimsoll", "gateway"):
            continue
        programs.append(document["metadata"]["component"])
        if merged is None:
            merged = document
            continue
        known = {component["bom-ref"] for component in merged["components"]}
        merged["components"] += [one for one in document["components"] if one["bom-ref"] not in known]
        depends = {one["ref"]: one for one in merged["dependencies"]}
        merged["dependencies"] += [one for one in document["dependencies"] if one["ref"] not in depends]
    # The release contains both programs.
    merged["components"] += programs
    merged["metadata"]["component"] = {"type": "application", "bom-ref": "plimsoll", "name": "plimsoll", "version": release.version}
    merged["dependencies"].append({"ref": "plimsoll", "dependsOn": [program["bom-ref"] for program in programs]})
    text = json.dumps(merged, indent=1, sort_keys=True).replace(str(root), "/plimsoll")
    document = json.loads(text)
    # Two builds of a commit have the same number.
    document["serialNumber"] = f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, f'plimsoll:{release.commit}')}"
    path = out / f"plimsoll-{release.version}.cdx.json"
    path.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n")
    return path
