"""The table of tests/suites: which suites CI repeats after a change."""
import importlib.machinery
import importlib.util
import os

import pytest
from support import ROOT

loader = importlib.machinery.SourceFileLoader("suites", os.path.join(ROOT, "tests", "suites"))
suites = importlib.util.module_from_spec(importlib.util.spec_from_loader("suites", loader))
loader.exec_module(suites)


@pytest.mark.parametrize("path,repeated", [
    ("crates/store/maintenance/src/mover/pass.rs", {"store", "durability", "documents", "counts"}),
    ("crates/measure/report/src/text/answer.rs", {"instrument", "documents"}),
    ("crates/measure/durability/src/cut.rs", {"durability", "instrument", "documents"}),
    ("docs/judging.md", {"documents"}),
    ("docs/operations/backup.md", {"store", "documents"}),
    ("tests/clients/test_tiers.py", {"store"}),
    ("tests/clients/support.py", {"store", "durability", "instrument", "documents"}),
    ("infra/helm/plimsoll/Chart.yaml", {"infra", "fleet", "documents"}),
    ("crates/common/base/src/rng.rs", set(suites.INPUTS) - {"infra", "bare"}),
    ("Cargo.lock", set(suites.INPUTS) - {"infra", "bare"}),
])
def test_a_change_repeats_the_suites_that_it_can_break(path, repeated):
    assert os.path.isfile(os.path.join(ROOT, path)), "the table of this test is outdated"
    assert {suite for suite in suites.INPUTS if path in suites.inputs(suite)} == repeated


def test_a_result_is_recorded_only_if_every_test_has_passed_at_once(tmp_path):
    def report(*cases):
        path = tmp_path / "report.xml"
        path.write_text("<testsuites>" + "".join(f'<testcase classname="tests.clients.test_{module}" name="{name}">{inner}'
                                                 "</testcase>" for module, name, inner in cases) + "</testsuites>")
        return suites.passed(path, "durability")

    other = ("tiers", "a", "<failure/>")
    assert report(("durability", "a", ""), ("durability", "b", ""), other)
    assert not report(other), "nothing of the suite was run"
    assert not report(("durability", "a", "<failure/>"), ("durability", "b", ""))
    assert not report(("durability", "a", "<skipped/>"), ("durability", "b", ""))
    assert not report(("durability", "a", ""), ("durability", "a", "")), "one was repeated"
