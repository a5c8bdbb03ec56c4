#!/usr/bin/env python3
"""Runs ceph s3-tests, unmodified, against `plimsoll serve` or `plimsoll-gateway` and compares the result with committed
lists. The accounts of the suite have their own keys.

    python3 tests/protocol/s3_tests.py CHECKOUT             # fails if a listed test no longer passes
    python3 tests/protocol/s3_tests.py CHECKOUT --update    # rewrites s3-tests-passes.txt and s3-tests-failures.txt
    python3 tests/protocol/s3_tests.py CHECKOUT --messages  # also prints every failure
    python3 tests/protocol/s3_tests.py CHECKOUT --gateway   # the same for the gateway, with gateway-passes.txt
    python3 tests/protocol/s3_tests.py CHECKOUT --moving    # the same while every object moves between two tiers

CHECKOUT is a clone of https://github.com/ceph/s3-tests. Its requirements must be installed for this Python
(`pip install -r CHECKOUT/requirements.txt`). PLIMSOLL names the binary; the default is target/release/plimsoll.
"""
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "clients"))
import gateways  # noqa: E402
from support import ACCESS, SECRET, Server, environment  # noqa: E402

# The tests of S3 itself. The other files test IAM, STS, SNS and S3 Select.
FILES = ["s3tests/functional/test_s3.py", "s3tests/functional/test_headers.py"]

GATEWAY_RUN = gateways.RUN
ALT, TENANT = "alt", "tenant"
LISTS = "gateway" if GATEWAY_RUN else "s3-tests"

# Features that the server does not have: a pattern for "name: message", and the feature.
FEATURES = [
    (r"aws2|_v2\b|mechanism you have provided", "signature version 2"),
    (r"post_object|_post_", "browser uploads by form (POST object)"),
    (r"object_lock|object-lock|retention|legal_hold|governance", "object lock"),
    (r"sse_|encrypt|kms|_enc_|server-side-encry", "server-side encryption"),
    (r"transition|restore|glacier|storage_class|STANDARD_IA", "storage classes"),
    (r"website", "static websites"),
    (r"torrent", "BitTorrent"),
    (r"bucket_head_extended|usage|unordered|allow-unordered", "Ceph extensions"),
    (r"anon|not_owned|public|access_denied|[Aa]cl|[Oo]wner|object-ownership|grant|authenticated_|_policy|policy_|PutBucketPolicy|logging",
     "other accounts, anonymous access, access control lists and policies"),
]

# Tests of existing features that expect another response than S3 returns, or that cannot pass as written: a pattern for
# the name, and the reason.
DIFFERENT = [
    (r"object_raw_put_authenticated_expired", "a negative X-Amz-Expires returns 400 AuthorizationQueryParametersError, like S3"),
    (r"put_object_ifnonmatch|put_object_if_match|put_(current_)?object_(current_)?if_(none_)?match", "If-None-Match with an entity tag on a write returns 501, like S3"),
    (r"_get_part", "a missing part returns 416 InvalidPartNumber, like S3"),
    (r"multipart_copy_invalid_range", "a source range beyond the object returns 400 InvalidArgument, like S3"),
    (r"object_checksum_(sha256|crc64nvme)", "a checksum of the wrong length returns 400 InvalidRequest, like S3"),
    (r"list_prefix_unreadable", "the Prefix of ListObjects is percent-encoded, as in the S3 reference; botocore does not decode it"),
    (r"unicode_metadata", "botocore sends UTF-8 and reads Latin-1 (the test is marked fails_on_rgw)"),
    (r"object_read_unreadable", "the key is valid UTF-8 (the test is marked fails_on_rgw)"),
    (r"multipart_resend_first_finishes_last", "a part that is listed twice is refused"),
    (r"_none\b|authorization_empty|amz_date_and_no_date|date_and_amz_date\b", "the test does not change the header that it intends to change (marked fails_on_rgw)"),
    (r"delete_object_current_if_match$|delete_marker_(nonversioned|expiration)|return_version_id|put_excess_tags", "Ceph and S3 differ"),
    (r"expires_out_(max|positive)_range", "an X-Amz-Expires above a week returns 400, like S3"),
    (r"cors_origin_response", "the test expects a header of preflights to count in other requests"),
    (r"list_buckets_paginated", "the names that the test creates are not sorted"),
    (r"lifecycle_deletemarker_expiration_with_days_tag", "the test expects a delete marker to expire by days"),
    (r"bad_expect_mismatch|bucket_create_exists", "the test itself raises TypeError or AttributeError"),
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
lc_debug_interval = 10
api_name = default
access_key = {access}
secret_key = {secret}
[s3 alt]
display_name = {alt}
user_id = {alt}
email = alt@example.com
access_key = {alt}
secret_key = {other}
[s3 tenant]
display_name = {tenant}
user_id = {tenant}
email = tenant@example.com
tenant = tenant
access_key = {tenant}
secret_key = {other}
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


def about(name, message):
    """Returns the reason of a failure. A failure that matches no pattern is a defect of the server."""
    for patterns, kind in ((DIFFERENT, "different: "), (FEATURES, "absent: ")):
        text = name if patterns is DIFFERENT else f"{name}: {message}"
        for pattern, reason in patterns:
            if re.search(pattern, text):
                return kind + reason
    return "DEFECT"


def start(folder):
    accounts = os.path.join(folder, "accounts.toml")
    with open(accounts, "w") as file:
        for key, secret in ((ACCESS, SECRET), (ALT, "other-secret"), (TENANT, "other-secret")):
            file.write(f'[[account]]\naccess_key = "{key}"\nsecret_key = "{secret}"\nbuckets = []\nwrite = true\n')
    os.chmod(accounts, 0o600)
    options = ["--lifecycle-day", "10s", "--credentials", accounts]
    if GATEWAY_RUN:
        return gateways.start(folder, *options)
    return Server(*options)


def run_suite(checkout):
    """Returns the set of tests that pass, and a dictionary from each failed test to its message."""
    with tempfile.TemporaryDirectory() as folder, start(folder) as server:
        host, port = server.url.rsplit("/", 1)[1].split(":")
        config = os.path.join(folder, "s3tests.conf")
        with open(config, "w") as file:
            file.write(CONFIG.format(host=host, port=port, access=ACCESS, secret=SECRET, alt=ALT, tenant=TENANT,
                                     other="other-secret"))
        report = os.path.join(folder, "report.xml")
        # Most of the time, lifecycle tests wait; with pytest-xdist, the others run meanwhile.
        parallel = ["-n", "4"] if importlib.util.find_spec("xdist") else []
        done = subprocess.run([sys.executable, "-m", "pytest", "-q", *parallel, "-p", "no:cacheprovider",
                               "--tb=line", f"--junit-xml={report}", *FILES],
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
    with open(os.path.join(HERE, f"{LISTS}-passes.txt"), "w") as file:
        file.writelines(f"{name}\n" for name in sorted(passes))
    groups = {}
    for name in failures:
        groups.setdefault(about(name, failures[name]), []).append(name)
    with open(os.path.join(HERE, f"{LISTS}-failures.txt"), "w") as file:
        file.write("# Tests of ceph s3-tests that fail: features that the server does not have, and responses for which S3 and\n"
                   "# the tests differ.\n")
        for group in sorted(groups):
            file.write(f"\n[{group}]\n")
            short = len(groups[group]) <= 12
            for name in sorted(groups[group]):
                message = re.sub(r"\bs3-tests-\w+-\d+\b", "BUCKET", failures[name])[:140].strip()
                file.write(f"{name}: {message}\n" if short else f"{name}\n")


def main():
    arguments = [a for a in sys.argv[1:] if not a.startswith("--")]
    if len(arguments) != 1:
        sys.exit(__doc__)
    passes, failures = run_suite(os.path.abspath(arguments[0]))
    if "--messages" in sys.argv:
        for name in sorted(failures):
            print(f"{about(name, failures[name])}: {name}: {failures[name]}")
    if "--update" in sys.argv:
        update(passes, failures)
    with open(os.path.join(HERE, f"{LISTS}-passes.txt")) as file:
        listed = set(file.read().split())
    lost = sorted(listed - passes) + sorted(name for name in failures if about(name, failures[name]) == "DEFECT")
    for name in lost:
        print(f"no longer passes: {name}: {failures.get(name, 'did not run')}")
    print(f"{len(passes)} tests pass, {len(failures)} fail, {len(passes - listed)} pass but are not listed")
    sys.exit(1 if lost else 0)


if __name__ == "__main__":
    main()
