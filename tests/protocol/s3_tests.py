#!/usr/bin/env python3
"""ceph s3-tests, unmodified and with one key pair, against `plimsoll serve`, compared with committed lists.

    python3 tests/protocol/s3_tests.py CHECKOUT             # fails if a test that passed no longer does
    python3 tests/protocol/s3_tests.py CHECKOUT --update    # rewrites s3-tests-passes.txt and s3-tests-failures.txt

CHECKOUT is a clone of https://github.com/ceph/s3-tests. Its requirements must be installed for this Python
(`pip install -r CHECKOUT/requirements.txt`). PLIMSOLL names the binary; the default is target/release/plimsoll.
"""
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "clients"))
from support import ACCESS, SECRET, Server, environment  # noqa: E402

# Test files and markers of services that are not S3: IAM, STS, notifications, S3 Select, RGW's own log buckets.
FILES = ["s3tests/functional/test_s3.py", "s3tests/functional/test_headers.py"]
SKIPPED = ["auth_aws2", "appendobject", "bucket_logging", "cloud_transition", "cloud_restore", "iam_account",
           "iam_cross_account", "iam_role", "iam_tenant", "iam_user", "lifecycle_expiration", "lifecycle_transition",
           "s3select", "sns", "test_of_sts", "webidentity_test"]

# Features that the server does not have: a pattern over test names and markers, and the feature.
FEATURES = [
    (r"auth_aws2|_v2$", "signature version 2"),
    (r"post_object|_post_", "browser uploads by form (POST object)"),
    (r"anon|not_owned|_other|another|different_tenant|public|access_denied|acl|owner|grant|raw_get|raw_put|unauth|badperms|authenticated|private|read_write|deny|allow|x_account|crossaccount|_policy|bucket_policy|block_public|usage|account|ownership", "other accounts, anonymous access, access control lists and policies"),
    (r"sse|encrypt|kms", "server-side encryption"),
    (r"lifecycle|expir", "lifecycle rules"),
    (r"object_lock|retention|legal_hold|governance", "object lock"),
    (r"tagging|tags|_tag\b", "tags"),
    (r"cors", "CORS"),
    (r"website", "static websites"),
    (r"version", "versioning (buckets are unversioned: each object has the version `null`)"),
    (r"storage_class|restore|transition", "storage classes other than STANDARD"),
    (r"logging", "server access logs"),
    (r"append", "appending to objects (an extension of Ceph)"),
    (r"torrent", "BitTorrent"),
    (r"unordered|return_data_extra|list_.*unordered", "listing in no order (an extension of Ceph)"),
]

CONFIG = """[DEFAULT]
host = {host}
port = {port}
is_secure = False
ssl_verify = False
[fixtures]
bucket prefix = s3-tests-{{random}}-
[s3 main]
display_name = {access}
user_id = {access}
email = main@example.com
api_name = default
access_key = {access}
secret_key = {secret}
[s3 alt]
display_name = {access}
user_id = {access}
email = alt@example.com
access_key = {access}
secret_key = {secret}
[s3 tenant]
display_name = {access}
user_id = {access}
email = tenant@example.com
tenant = tenant
access_key = {access}
secret_key = {secret}
[iam]
display_name = {access}
user_id = {access}
email = iam@example.com
access_key = {access}
secret_key = {secret}
[iam root]
user_id = {access}
email = root@example.com
access_key = {access}
secret_key = {secret}
[iam alt root]
user_id = {access}
email = altroot@example.com
access_key = {access}
secret_key = {secret}
"""


def feature(name):
    """The absent feature that a test is about; None if the server claims it."""
    return next((what for pattern, what in FEATURES if re.search(pattern, name)), None)


def run_suite(checkout):
    """Returns the names of tests that pass, and messages of those that fail by name."""
    with Server() as server, tempfile.TemporaryDirectory() as folder:
        host, port = server.url.rsplit("/", 1)[1].split(":")
        config = os.path.join(folder, "s3tests.conf")
        with open(config, "w") as file:
            file.write(CONFIG.format(host=host, port=port, access=ACCESS, secret=SECRET))
        report = os.path.join(folder, "report.xml")
        chosen = " and ".join(f"not {marker}" for marker in SKIPPED)
        done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
                               "--tb=line", "-m", chosen, f"--junit-xml={report}", *FILES],
                              env=environment(S3TEST_CONF=config, PYTHONDONTWRITEBYTECODE="1"), cwd=checkout,
                              capture_output=True, text=True, timeout=3600)
        if not os.path.exists(report):
            sys.exit(f"s3-tests: pytest wrote no report: {(done.stdout + done.stderr)[-3000:]}")
        cases = ElementTree.parse(report).getroot().iter("testcase")
        passes, failures = set(), {}
        for case in cases:
            problem = next((child for child in case if child.tag in ("failure", "error")), None)
            if problem is not None:
                failures[case.get("name")] = (problem.get("message") or "").split("\n")[0]
            elif case.find("skipped") is None:
                passes.add(case.get("name"))
    return passes - failures.keys(), failures


def update(passes, failures):
    with open(os.path.join(HERE, "s3-tests-passes.txt"), "w") as file:
        file.writelines(f"{name}\n" for name in sorted(passes))
    groups = {}
    for name in failures:
        groups.setdefault(feature(name) or "claimed", []).append(name)
    with open(os.path.join(HERE, "s3-tests-failures.txt"), "w") as file:
        file.write("# Tests of ceph s3-tests that fail, by the feature that the server does not have.\n")
        for group in sorted(groups):
            file.write(f"\n[{group}]\n")
            file.writelines(f"{name}: {failures[name][:160]}\n" for name in sorted(groups[group]))


def main():
    arguments = [a for a in sys.argv[1:] if not a.startswith("--")]
    if len(arguments) != 1:
        sys.exit(__doc__)
    passes, failures = run_suite(os.path.abspath(arguments[0]))
    if "--update" in sys.argv:
        update(passes, failures)
    with open(os.path.join(HERE, "s3-tests-passes.txt")) as file:
        listed = set(file.read().split())
    lost = sorted(listed - passes)
    for name in lost:
        print(f"no longer passes: {name}: {failures.get(name, 'did not run')}")
    print(f"{len(passes)} pass, {len(failures)} fail, {len(passes - listed)} pass that are not listed")
    sys.exit(1 if lost else 0)


if __name__ == "__main__":
    main()
