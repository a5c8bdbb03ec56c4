"""Runs the image of the gateway as the pod of the Helm chart: its arguments, settings, user, read-only root, volumes and
rights of secrets. Used by test.py in own network and mount namespaces: `pod.py ROOT CLIENT`, with the unpacked image and
a program `plimsoll` that measures the gateway. Kubernetes' rules for the user and the volumes are followed here by hand.
"""
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

import yaml

CHART = Path(__file__).resolve().parent.parent / "infra" / "helm" / "plimsoll-gateway"
ACCOUNTS = '[[account]]\naccess_key = "operator"\nsecret_key = "secret-of-the-pod"\nwrite = true\n'
STORE = "s3://measured?endpoint=http://127.0.0.1:9000"
KEYS = {"AWS_ACCESS_KEY_ID": "operator", "AWS_SECRET_ACCESS_KEY": "secret-of-the-pod", "AWS_REGION": "us-east-1"}


def rendered():
    """Returns the pod and the settings of the chart with its default values."""
    command = [os.environ.get("HELM", "helm"), "template", "gw", str(CHART), "--kube-version", "1.33.0",
               "--set", "image.repository=plimsoll-gateway,accountsSecret=accounts"]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    objects = {document["kind"]: document for document in yaml.safe_load_all(text) if document}
    return objects["StatefulSet"]["spec"]["template"]["spec"], objects["ConfigMap"]["data"]


def mount(*arguments):
    subprocess.run(["mount", *map(str, arguments)], check=True)


def prepare(root, pod, settings):
    """Mounts the root read-only, and the volumes with the rights that Kubernetes gives them."""
    group = pod["securityContext"]["fsGroup"]
    for name in ("proc", "dev"):
        (root / name).mkdir(exist_ok=True)
    contents = {"settings": settings, "accounts": {"accounts.toml": ACCOUNTS}}
    modes = {volume["name"]: volume.get("secret", {}).get("defaultMode", 0o644) for volume in pod["volumes"]}
    mounts = pod["containers"][0]["volumeMounts"]
    for each in mounts:
        (root / each["mountPath"].lstrip("/")).mkdir(parents=True, exist_ok=True)
    mount("--rbind", root, root)
    mount("-t", "proc", "proc", root / "proc")
    mount("--rbind", "/dev", root / "dev")
    for each in mounts:
        target = root / each["mountPath"].lstrip("/")
        mount("-t", "tmpfs", "-o", f"gid={group},mode=2775", "tmpfs", target)
        for name, text in contents.get(each["name"], {}).items():
            (target / name).write_text(text)
            os.chown(target / name, 0, group)
            # Kubernetes lets the group read.
            (target / name).chmod(modes[each["name"]] | 0o440)
        if each.get("readOnly"):
            mount("-o", "remount,ro", target)
    mount("-o", "remount,bind,ro", root)


def probe(path):
    try:
        return urllib.request.urlopen(f"http://127.0.0.1:9100{path}", timeout=10).status
    except urllib.error.HTTPError as error:
        return error.code
    except urllib.error.URLError:
        return None


def main():
    root, client = Path(sys.argv[1]), sys.argv[2]
    pod, settings = rendered()
    container = pod["containers"][0]
    prepare(root, pod, settings)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    user, group = pod["securityContext"]["runAsUser"], pod["securityContext"]["runAsGroup"]
    enter = ["setpriv", "--no-new-privs", "chroot", f"--userspec={user}:{group}", "--groups=", root]
    environment = {"PATH": os.environ["PATH"], "HOME": "/data"}
    gateway = subprocess.Popen([*enter, "/usr/bin/plimsoll-gateway", *container["args"]], env=environment)
    try:
        while probe(container["startupProbe"]["httpGet"]["path"]) is None:
            assert gateway.poll() is None, f"the gateway ended with {gateway.returncode}"
            time.sleep(0.1)
        assert probe(container["readinessProbe"]["httpGet"]["path"]) == 200
        with tempfile.TemporaryDirectory() as out:
            subprocess.run([client, "run", "get", "--store", STORE, "--create-bucket", "--objects", "100", "--size", "1KiB",
                            "--duration", "1s", "--out", out], check=True, env={**os.environ, **KEYS})
        # The command that the notes of the chart show.
        subprocess.run([*enter, "/usr/bin/plimsoll-gateway", "status", "/etc/plimsoll/gateway.toml"], check=True,
                       env=environment)
    finally:
        gateway.terminate()
    assert gateway.wait() == 0


if __name__ == "__main__":
    main()
