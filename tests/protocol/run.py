#!/usr/bin/env python3
"""Runs `versitygw test full-flow` against `plimsoll serve` and compares the result with the committed list.

    python3 tests/protocol/run.py             # fails if a listed test no longer passes
    python3 tests/protocol/run.py --update    # rewrites passes.txt and failures.txt
    python3 tests/protocol/run.py --gateway   # the same for the gateway, with versitygw-gateway-passes.txt
    python3 tests/protocol/run.py --moving    # the same while every object moves between two tiers

Install versitygw with `go install github.com/versity/versitygw/cmd/versitygw@v1.8.0`.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "clients"))
import gateways  # noqa: E402
from support import ACCESS, SECRET, Server, environment  # noqa: E402

PREFIX = "versitygw-gateway-" if gateways.RUN else ""

# Reasons why tests fail: a pattern for "name: message", and the feature that the test is about.
FEATURES = [
    (r"^IAM|as_user|AccessControl|no_access|exit status 1|not_owned|PublicBucket", "accounts other than the one that the server is started with"),
    (r"PostObject|RouterPostRoot|RouterPostObject", "browser uploads by form (POST object)"),
    (r"[Aa]cl|Ownership|ownership", "access control lists and object ownership"),
    (r"Policy|policy", "bucket policies"),
    (r"WORM|ObjectLock|Retention|LegalHold|object_lock|legal_hold|retain|retention|bucket_lock|racey_success", "object lock"),
    (r"Tagging|_tagging|_tags|tag_count|duplicate_keys|NotImplemented: .*tagging", "tags"),
    (r"Cors|Preflight", "CORS"),
    (r"[Ww]ebsite|redirect", "static websites"),
    (r"Versioning|Versions|versionId|version_id", "versioning"),
    (r"Attributes", "GetObjectAttributes"),
    (r"owner", "x-amz-expected-bucket-owner"),
    (r"sha512|SHA512|xxhash|XXHASH|MD5, SHA1|checksum- header is invalid|x-amz-trailer header is not supported|multiple_.*checksums",
     "checksums beyond CRC32, CRC32C, CRC64NVME, SHA-1 and SHA-256"),
    (r"incorrect_region|location_constraint", "several regions (the server accepts signatures for any region)"),
    (r"object_names|directory_success|dir_with_range|racey", "file system semantics of keys"),
    (r"arn", "ARNs of buckets"),
    (r"if_match_initiated_time|DeleteObject_conditional_writes", "conditional deletes and aborts by time or size"),
    (r"conditional_writes", "conditions that this server implements, for which the test expects NotImplemented"),
    (r"zero_len_with_range", "ranges of empty objects (this server returns 416, like S3)"),
    (r"conditional_reads", "304 from copies (this server returns 412, as in the S3 reference)"),
    (r"security_token|sigv2|ECDSA|unsupported_algorithm", "signature schemes other than SigV4 with HMAC"),
    (r"Authentication|Presigned|PresignedAuth|Router|Server_", "order of checks (authentication comes first here) and wording of messages"),
    (r"Streaming|Streamin", "order of checks and wording of messages for malformed aws-chunked bodies"),
    (r"checksum", "checksums of parts: order of checks and wording of messages"),
]


def feature(name, message):
    # Messages quote XML documents, whose prologue contains the word "version".
    line = f"{name}: " + message.replace('<?xml version="1.0" encoding="UTF-8"?>', "another document")
    return next((f for pattern, f in FEATURES if re.search(pattern, line)), "details of the response")


def run_suite():
    with tempfile.TemporaryDirectory() as folder, (gateways.start(folder) if gateways.RUN else Server()) as server:
        tool = shutil.which("versitygw") or os.path.expanduser("~/go/bin/versitygw")
        if not os.path.exists(tool):
            sys.exit("versitygw is not installed: go install github.com/versity/versitygw/cmd/versitygw@v1.8.0")
        os.symlink(tool, os.path.join(folder, "versitygw"))  # the suite calls itself in the working directory
        done = subprocess.run([tool, "test", "-a", ACCESS, "-s", SECRET, "-e", server.url, "full-flow"],
                              env=environment(), cwd=folder, capture_output=True, text=True, timeout=600)
    text = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)
    if "RAN:" not in text:
        sys.exit(f"the suite did not finish:\n{text[-3000:]}")
    passes = set(re.findall(r"^PASS\s+(\w+)", text, re.M))
    failures = dict(re.findall(r"^FAIL\s+(\w+): (.*)", text, re.M))
    return passes - failures.keys(), failures


def main():
    passes, failures = run_suite()
    listed_path = os.path.join(HERE, f"{PREFIX}passes.txt")
    if "--update" in sys.argv:
        with open(listed_path, "w") as file:
            file.writelines(f"{name}\n" for name in sorted(passes))
        with open(os.path.join(HERE, f"{PREFIX}failures.txt"), "w") as file:
            file.write("# Tests of `versitygw test full-flow` (v1.8.0) that fail, grouped by feature.\n")
            groups = {}
            for name, message in failures.items():
                groups.setdefault(feature(name, message), []).append((name, message))
            for group in sorted(groups):
                file.write(f"\n[{group}]\n")
                for name, message in sorted(groups[group]):
                    message = message.replace('<?xml version="1.0" encoding="UTF-8"?>', "another document")
                    message = re.sub(r"RequestID: \w+, HostID: , |0x[0-9a-f]+", "", message)
                    file.write(name + ("\n" if len(groups[group]) > 12 else f": {message[:160]}\n"))
    with open(listed_path) as file:
        listed = set(file.read().split())
    lost = sorted(listed - passes)
    for name in lost:
        print(f"no longer passes: {name}: {failures.get(name, 'did not run')}")
    print(f"{len(passes)} tests pass, {len(failures)} fail, {len(passes - listed)} pass but are not listed")
    sys.exit(1 if lost else 0)


if __name__ == "__main__":
    main()
