"""The shell steps of the GitHub Action, executed in order as a runner does, on a store in memory."""

import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from support import PLIMSOLL, Server, environment

ROOT = Path(__file__).resolve().parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())


def run_action(folder, inputs, environment=os.environ):
    """Executes the shell steps; returns the exit codes by step, the summary and the outputs."""
    given = {name: value.get("default", "") for name, value in ACTION["inputs"].items()} | inputs
    summary, outputs = folder / "summary.md", folder / "outputs"
    environment = dict(environment, GITHUB_ACTION_PATH=str(ROOT), GITHUB_SHA="0123abc", GITHUB_REF_NAME="main",
                       GITHUB_STEP_SUMMARY=str(summary), GITHUB_OUTPUT=str(outputs),
                       PATH=f"{Path(PLIMSOLL).parent}:{os.environ['PATH']}")
    codes = {}
    for step in ACTION["runs"]["steps"]:
        if "run" not in step:
            continue
        fill = lambda text: re.sub(r"\$\{\{ inputs\.([a-z-]+) \}\}", lambda m: given[m.group(1)], text)
        own = {name: fill(value) for name, value in step.get("env", {}).items()}
        # GitHub runs `shell: bash` with these flags.
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        done = subprocess.run(command, cwd=folder, env=environment | own, capture_output=True, text=True)
        codes[step["name"]] = done.returncode, done.stdout + done.stderr
    return codes, summary.read_text() if summary.exists() else "", outputs.read_text() if outputs.exists() else ""


def test_runs_are_measured_checked_and_compared(tmp_path):
    inputs = {"run": "get --store memory: --duration 3s --warmup 0s", "slo": "errors < 1%\nget.p50 < 1s",
              "fail-if": "get.p50 > +90000%", "inconclusive": "pass"}
    codes, summary, outputs = run_action(tmp_path, inputs)
    assert all(code == 0 for code, _ in codes.values()), codes
    assert "| errors &lt; 1% |" in summary and "Comparison" not in summary
    assert re.search(r"run=plimsoll-runs/\d{8}T", outputs)
    codes, summary, _ = run_action(tmp_path, inputs)
    assert all(code == 0 for code, _ in codes.values()), codes
    assert "get p50" in summary, summary


def test_a_missed_objective_fails_and_arguments_are_not_executed(tmp_path):
    with Server("--inject", "error=0.5") as server:
        store = f"'s3://bench/?endpoint={server.url}' --create-bucket"
        inputs = {"run": f"put --store {store} --duration 2s --warmup 0s --vantage '$(touch executed); touch executed'",
                  "slo": "errors < 1%", "inconclusive": "fail"}
        codes, summary, _ = run_action(tmp_path, inputs, environment())
    assert codes["Measure"][0] == 0, codes
    assert codes["Check"][0] == 1 and "FAIL" in summary, codes
    assert not (tmp_path / "executed").exists()


def test_a_run_that_fails_still_has_its_outputs_and_is_checked_and_saved(tmp_path):
    """Regression test: a run with exit code 1 set no output, so its report was not uploaded and its history was lost."""
    load = "get --store memory: --duration 2s --warmup 0s"
    codes, summary, outputs = run_action(tmp_path, {"run": f"{load} --slo 'get.p50 < 1ns'", "slo": "errors < 0.1%",
                                                    "inconclusive": "pass"})
    assert codes["Measure"][0] != 0 and codes["Check"][0] == 0 and "errors" in summary, codes
    run = re.fullmatch(r"run=(plimsoll-runs/\S+)\n", outputs)[1]
    assert (tmp_path / run / "report.html").exists()
    (tmp_path / "outputs").unlink()
    codes, _, outputs = run_action(tmp_path, {"run": "get --store nowhere:"})
    assert codes["Measure"][0] != 0 and outputs == "", "a run that did not begin has no directory"
    later = ACTION["runs"]["steps"][[s["name"] for s in ACTION["runs"]["steps"]].index("Measure") + 1:]
    assert all("steps.measure.outputs.run != ''" in step["if"] for step in later)


@pytest.mark.parametrize("step", [s for s in ACTION["runs"]["steps"] if "run" in s], ids=lambda s: s["name"])
def test_inputs_reach_the_shell_only_through_the_environment(step):
    assert "${{" not in step["run"]
