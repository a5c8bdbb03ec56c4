"""The Helm chart of the gateway: what it renders, what it refuses, and whether Kubernetes accepts the result."""

import json
import os
import shutil
import subprocess
import tomllib
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

CHARTS = Path(__file__).resolve().parents[1] / "helm"
CHART = CHARTS / "plimsoll-gateway"
HELM = os.environ.get("HELM") or shutil.which("helm")
GO = shutil.which("go")
pytestmark = pytest.mark.skipif(not HELM, reason="helm is not installed")

DATABASE = """
[catalog]
url = "postgres://plimsoll@db.example:5432/plimsoll"
password_env = "CATALOG_PASSWORD"
[tier.cold]
url = "s3://archive/plimsoll"
[write]
tier = "cold"
"""
REQUIRED = {"image": {"repository": "registry.example/plimsoll-gateway"}, "accountsSecret": "accounts"}
DIGEST = "sha256:" + "0" * 64
# Eight sets of values, and the kind of the workload.
SETS = {
    "a volume": ({}, "StatefulSet"),
    "a database": ({"settings": DATABASE, "environmentSecrets": ["tier", "database"]}, "Deployment"),
    "one pod with a database": ({"settings": DATABASE, "replicas": 1}, "Deployment"),
    "an existing claim": ({"persistence": {"existingClaim": "disk"}, "backupClaim": "backups"}, "StatefulSet"),
    "TLS and own authorities": ({"tlsSecret": "certificate", "authorities": {"configMap": "roots"}}, "StatefulSet"),
    "the Prometheus Operator": (
        {"monitoring": {"serviceMonitor": True, "alerts": True, "labels": {"release": "prometheus"}}}, "StatefulSet"),
    "a digest, a cache and a role": (
        {"settings": DATABASE + '[cache]\ndir = "/cache"\nsize = "10 GiB"\n', "cacheSize": "11Gi",
         "image": {"repository": "registry.example/gateway", "digest": DIGEST},
         "serviceAccount": {"name": "with-a-role"}, "podAnnotations": {"a": "1"}}, "Deployment"),
    "a load balancer and closed networks": (
        {"service": {"type": "LoadBalancer", "port": 443, "annotations": {"internal": "true"}},
         "networkPolicy": {"clients": [{"ipBlock": {"cidr": "10.0.0.0/8"}}],
                           "metrics": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}]},
         "nodeSelector": {"disk": "nvme"}, "tolerations": [{"operator": "Exists"}], "priorityClassName": "high",
         "arguments": ["--no-deletes"], "persistence": {"storageClass": "local", "size": "1Ti"}}, "StatefulSet"),
}
CUSTOM = {"ServiceMonitor", "PrometheusRule"}


def helm(values, command="template"):
    arguments = [command, *(["gw"] if command == "template" else []), str(CHART), "--kube-version", "1.33.0"]
    return subprocess.run([HELM, *arguments, "--values", "-"], input=json.dumps({**REQUIRED, **values}),
                          capture_output=True, text=True)


def rendered(values):
    result = helm(values)
    assert result.returncode == 0, result.stderr
    objects = [document for document in yaml.safe_load_all(result.stdout) if document]
    by_kind = {}
    for each in objects:
        by_kind.setdefault(each["kind"], []).append(each)
    return by_kind


@pytest.mark.parametrize("name", SETS)
def test_kubernetes_accepts_the_objects(name):
    values, kind = SETS[name]
    objects = rendered(values)
    assert kind in objects
    assert ("PodDisruptionBudget" in objects) == (kind == "Deployment" and values.get("replicas") != 1)
    for each in [one for kind, of_kind in objects.items() if kind not in CUSTOM for one in of_kind]:
        kubernetes_validate.validate(each, "1.33", strict=True)
    assert helm(values, "lint").returncode == 0


@pytest.mark.skipif(not GO, reason="Go is not installed")
def test_all_pods_pass_the_restricted_profile():
    fleet = subprocess.run([HELM, "template", "bench", str(CHARTS / "plimsoll"), "--set", "image=plimsoll:1"],
                           check=True, capture_output=True, text=True)
    pods = [yaml.safe_load(fleet.stdout)["spec"]["template"]]
    pods += [rendered(values)[kind][0]["spec"]["template"] for values, kind in SETS.values()]

    def refused(pods):
        result = subprocess.run([GO, "run", "."], cwd=CHARTS.parent / "tests/restricted", capture_output=True, text=True,
                                input="\n".join(map(json.dumps, pods)))
        assert result.returncode == 0, result.stderr
        return result.stdout

    assert refused(pods) == ""
    # The check refuses a pod without these restrictions.
    del pods[1]["spec"]["securityContext"], pods[1]["spec"]["containers"][0]["securityContext"]
    assert "runAsNonRoot" in refused(pods) and "seccomp" in refused(pods)


def test_charts_have_the_version_of_the_programs():
    version = tomllib.loads((CHARTS.parents[1] / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    for chart in CHARTS.glob("*/Chart.yaml"):
        found = yaml.safe_load(chart.read_text())
        assert found["version"] == found["appVersion"] == version, chart


def pod(values):
    objects = rendered(values)
    return (objects.get("StatefulSet") or objects["Deployment"])[0]["spec"]["template"]["spec"]


def test_secrets_are_mounted_or_referenced_and_never_values():
    spec = pod({"settings": DATABASE, "environmentSecrets": ["tier", "database"], "tlsSecret": "certificate"})
    container = spec["containers"][0]
    assert [each["secretRef"]["name"] for each in container["envFrom"]] == ["tier", "database"]
    secrets = {volume["name"]: volume["secret"] for volume in spec["volumes"] if "secret" in volume}
    assert secrets["accounts"]["secretName"] == "accounts" and secrets["tls"]["secretName"] == "certificate"
    # The gateway accepts files of root that its group can read.
    assert all(secret["defaultMode"] == 0o440 for secret in secrets.values())
    mounts = {mount["name"]: mount for mount in container["volumeMounts"]}
    assert all(mounts[name]["readOnly"] for name in ["accounts", "tls", "settings"]) and "data" not in mounts


def test_the_root_is_read_only_and_only_the_volume_is_writable():
    spec = pod({})
    container = spec["containers"][0]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert [mount["name"] for mount in container["volumeMounts"] if not mount.get("readOnly")] == ["data"]
    assert spec["securityContext"]["fsGroup"] == spec["securityContext"]["runAsUser"] == 65532


def test_claims_are_mounted():
    spec = pod(SETS["an existing claim"][0])
    claims = {volume["name"]: volume["persistentVolumeClaim"]["claimName"]
              for volume in spec["volumes"] if "persistentVolumeClaim" in volume}
    assert claims == {"data": "disk", "backup": "backups"}
    mounts = {mount["name"]: mount["mountPath"] for mount in spec["containers"][0]["volumeMounts"]}
    assert (mounts["data"], mounts["backup"]) == ("/data", "/backup")


def test_changed_settings_start_other_pods():
    def annotations(values):
        return rendered(values)["Deployment"][0]["spec"]["template"]["metadata"]["annotations"]

    first = annotations({"settings": DATABASE})
    assert first == annotations({"settings": DATABASE, "replicas": 3})
    assert first != annotations({"settings": DATABASE + "[retain]\ndeleted = '1d'\n"})


def test_the_settings_arrive_as_they_are():
    settings = rendered({"settings": DATABASE})["ConfigMap"][0]["data"]["gateway.toml"]
    assert tomllib.loads(settings) == tomllib.loads(DATABASE)


def test_the_monitor_finds_the_metrics_and_the_alerts_are_those_of_the_documents():
    objects = rendered(SETS["the Prometheus Operator"][0])
    monitor, = objects["ServiceMonitor"]
    labels = monitor["spec"]["selector"]["matchLabels"].items()
    service, = [each for each in objects["Service"] if labels <= each["metadata"]["labels"].items()]
    assert monitor["spec"]["endpoints"][0]["port"] == service["spec"]["ports"][0]["name"]
    # The alerts select this job.
    assert service["metadata"]["labels"][monitor["spec"]["jobLabel"]] == "plimsoll-gateway"
    alerts = yaml.safe_load((CHARTS.parents[1] / "docs/monitoring/alerts.yml").read_text())
    assert objects["PrometheusRule"][0]["spec"] == alerts


def test_selectors_match_the_pods():
    for values, kind in SETS.values():
        objects = rendered(values)
        workload = objects[kind][0]["spec"]
        selectors = [workload["selector"], objects["NetworkPolicy"][0]["spec"]["podSelector"],
                     *[each["spec"]["selector"] for each in objects.get("PodDisruptionBudget", [])]]
        selectors = [each["matchLabels"] for each in selectors] + [each["spec"]["selector"] for each in objects["Service"]]
        labels = workload["template"]["metadata"]["labels"].items()
        assert all(selector.items() <= labels for selector in selectors)
        names = {port["name"] for port in workload["template"]["spec"]["containers"][0]["ports"]}
        assert {port["targetPort"] for each in objects["Service"] for port in each["spec"]["ports"]} == names


@pytest.mark.parametrize("values, message", [
    ({"accountsSecret": ""}, "accountsSecret is missing"),
    ({"image": {"repository": ""}}, "image.repository is missing"),
    ({"settings": "[catalog]\nurl = 'dir:/var/lib/x'\n"}, "use dir:/data/NAME or postgres://"),
    ({"settings": "[catalog"}, "settings: toml:"),
    ({"settings": "[write]\ntier = 'a'\n"}, "use dir:/data/NAME or postgres://"),
    ({"settings": DATABASE.replace("s3://archive/plimsoll", "file:///data/blobs")}, "several pods cannot share"),
    ({"replicas": 0, "settings": DATABASE}, "replicas"),
    ({"replicaCount": 3}, "replicaCount"),
    ({"accountsSecret": "Not a name"}, "accountsSecret"),
    ({"image": {"repository": "x", "digest": "sha256:1"}}, "digest"),
    ({"service": {"port": "http"}}, "port"),
])
def test_wrong_values_are_refused(values, message):
    result = helm(values)
    assert result.returncode != 0 and message in result.stderr, result.stderr
