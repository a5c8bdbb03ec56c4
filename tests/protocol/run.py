#!/usr/bin/env python3
"""`versitygw test full-flow` against `plimsoll serve`, held against the committed list of what passes.

    python3 tests/protocol/run.py             # fails when a test that passed no longer does
    python3 tests/protocol/run.py --update    # rewrites passes.txt and failures.txt

versitygw comes from `go install github.com/versity/versitygw/cmd/versitygw@v1.8.0`.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "clients"))
from support import ACCESS, SECRET, Server, environment  # noqa: E402

# Why a test does not pass: a pattern over "name: message", and the feature it is about.
FEATURES = [
    (r"^IAM|as_user|AccessControl|no_access|exit status 1|not_owned|PublicBucket", "accounts beside the one it is started with"),
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
    (r"incorrect_region|location_constraint", "more than one region (signatures of any region are accepted)"),
    (r"object_names|directory_success|dir_with_range|racey", "file system semantics of keys"),
    (r"arn", "ARNs of buckets"),
    (r"if_match_initiated_time|DeleteObject_conditional_writes", "conditional deletes and aborts by time or size"),
    (r"conditional_writes", "wants NotImplemented for conditions that this server offers"),
    (r"zero_len_with_range", "ranges of empty objects (416 here, as S3 answers)"),
    (r"conditional_reads", "304 from copies (412 here, as the S3 reference says)"),
    (r"security_token|sigv2|ECDSA|unsupported_algorithm", "signature schemes other than SigV4 with HMAC"),
    (r"Authentication|Presigned|PresignedAuth|Router|Server_", "order of checks: authentication comes first, wording as below"),
    (r"Streaming|Streamin", "wording and order of checks on malformed aws-chunked bodies"),
    (r"checksum", "checksum bookkeeping of parts: wording and order of checks"),
]


def feature(name, message):
    # A message quotes documents, whose prologue says "version".
    line = f"{name}: " + message.replace('<?xml version="1.0" encoding="UTF-8"?>', "another document")
    return next((f for pattern, f in FEATURES if re.search(pattern, line)), "detail of the answer")


def run_suite():
    with Server() as server, tempfile.TemporaryDirectory() as folder:
        tool = shutil.which("versitygw") or os.path.expanduser("~/go/bin/versitygw")
        if not os.path.exists(tool):
            sys.exit("versitygw is not installed: go install github.com/versity/versitygw/cmd/versitygw@v1.8.0")
        os.symlink(tool, os.path.join(folder, "versitygw"))  # the suite calls itself in the working directory
        done = subprocess.run([tool, "test", "-a", ACCESS, "-s", SECRET, "-e", server.url, "full-flow"],
                              env=environment(), cwd=folder, capture_output=True, text=True, timeout=600)
    text = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)
    if "RAN:" not in text:
        sys.exit(f"the suite did not come to its end:\n{text[-3000:]}")
    passes = set(re.findall(r"^PASS\s+(\w+)", text, re.M))
    failures = dict(re.findall(r"^FAIL\s+(\w+): (.*)", text, re.M))
    return passes - failures.keys(), failures


def main():
    passes, failures = run_suite()
    listed_path = os.path.join(HERE, "passes.txt")
    if "--update" in sys.argv:
        with open(listed_path, "w") as file:
            file.writelines(f"{name}\n" for name in sorted(passes))
        with open(os.path.join(HERE, "failures.txt"), "w") as file:
            file.write("# Tests of `versitygw test full-flow` (v1.8.0) that do not pass, and what they are about.\n")
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
    print(f"{len(passes)} pass, {len(failures)} do not, {len(passes - listed)} pass that are not listed")
    sys.exit(1 if lost else 0)


if __name__ == "__main__":
    main()
