"""The Helm chart of a fleet against `plimsoll fleet manifest`."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
PLIMSOLL = os.environ.get("PLIMSOLL", str(ROOT / "target/release/plimsoll"))
HELM = os.environ.get("HELM") or shutil.which("helm")
CASES = [
    ([], []),
    (["--secret", "keys", "--service-account", "bench"], ["secret=keys", "serviceAccount=bench"]),
    (["--cpu", "500m", "--memory", "1Gi"], ["cpu=500m", "memory=1Gi"]),
]


def helm(*arguments):
    return subprocess.run([HELM, *arguments], capture_output=True, text=True)


@pytest.mark.skipif(HELM is None, reason="helm is not installed")
@pytest.mark.parametrize("flags, values", CASES)
def test_the_chart_renders_the_manifest(flags, values):
    command = [PLIMSOLL, "fleet", "manifest", "--nodes", "8", "--image", "plimsoll:1", "--name", "bench", *flags]
    expected = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    settings = [word for value in ["nodes=8", "image=plimsoll:1", *values] for word in ("--set-string", value)]
    rendered = helm("template", "bench", str(ROOT / "infra/helm/plimsoll"), *settings)
    assert rendered.returncode == 0, rendered.stderr
    assert yaml.safe_load(rendered.stdout) == expected


@pytest.mark.skipif(HELM is None, reason="helm is not installed")
def test_missing_and_invalid_values_are_refused():
    chart = str(ROOT / "infra/helm/plimsoll")
    assert "image is missing" in helm("template", "bench", chart).stderr
    assert "from 1 to 1000" in helm("template", "bench", chart, "--set", "image=a,nodes=0").stderr
    assert helm("lint", chart, "--set", "image=a").returncode == 0
