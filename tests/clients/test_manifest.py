"""The manifest of a fleet against the schema of Kubernetes."""

import json
import subprocess

import kubernetes_validate
import pytest
from support import PLIMSOLL

KUBERNETES = "1.37"


def manifest(*more):
    command = [PLIMSOLL, "fleet", "manifest", "--nodes", "8", "--image", "plimsoll:1", *more]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


@pytest.mark.parametrize("more", [[], ["--secret", "keys", "--service-account", "bench", "--cpu", "500m"]])
def test_the_manifest_follows_the_schema_of_kubernetes(more):
    kubernetes_validate.validate(manifest(*more), KUBERNETES, strict=True)


def test_the_schema_refuses_an_unknown_field():
    job = manifest()
    job["spec"]["completionsMode"] = "Indexed"
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(job, KUBERNETES, strict=True)
