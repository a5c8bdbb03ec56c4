"""The Compose file of a gateway with Prometheus and Grafana. Their images cannot be started here: the tests check what
the file refers to, and Prometheus checks its settings."""

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "infra/compose"
COMPOSE = yaml.safe_load((FOLDER / "compose.yml").read_text())


def mounts(service):
    """Returns the paths in a container with the files that are mounted there, and the named volumes."""
    pairs = [each.split(":")[:2] for each in COMPOSE["services"][service]["volumes"]]
    return {inside: outside for outside, inside in pairs}


def test_all_files_and_volumes_exist():
    for service in COMPOSE["services"]:
        for inside, outside in mounts(service).items():
            assert outside in COMPOSE["volumes"] or (FOLDER / outside).is_file(), f"{service}: {inside}"


def test_the_settings_are_those_of_the_chart():
    values = yaml.safe_load((ROOT / "infra/helm/plimsoll-gateway/values.yaml").read_text())
    assert tomllib.loads((FOLDER / "gateway.toml").read_text()) == tomllib.loads(values["settings"])
    assert "/data" in mounts("gateway")


def test_the_image_has_the_version_of_the_program():
    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    assert COMPOSE["services"]["gateway"]["image"] == f"${{GATEWAY_IMAGE:-plimsoll-gateway:{version}}}"


def test_no_secret_has_a_default_and_ports_are_open_to_this_machine_only():
    for name, service in COMPOSE["services"].items():
        for variable, value in service.get("environment", {}).items():
            assert re.fullmatch(r"\$\{\w+:\?.*\}", value), f"{name}: {variable}"
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])


@pytest.mark.skipif(not shutil.which("promtool"), reason="Prometheus is not installed")
def test_prometheus_accepts_its_settings(tmp_path):
    for inside, outside in mounts("prometheus").items():
        if inside.startswith("/etc/prometheus/"):
            shutil.copy(FOLDER / outside, tmp_path / Path(inside).name)
    checked = subprocess.run(["promtool", "check", "config", tmp_path / "prometheus.yml"], capture_output=True, text=True)
    assert checked.returncode == 0 and "alerts.yml" in checked.stdout, checked.stdout + checked.stderr
    scraped = yaml.safe_load((tmp_path / "prometheus.yml").read_text())["scrape_configs"]
    assert [job["job_name"] for job in scraped] == ["plimsoll-gateway"]
