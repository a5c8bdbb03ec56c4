"""Names of buckets that follow the documented rules.

Sources: Amazon S3 User Guide, "General purpose bucket naming rules" and "Directory bucket naming rules"; the rules of R2
and Google Cloud Storage allow everything that these functions return.
"""

from __future__ import annotations

import hashlib
import json
import re

LONGEST = 63
"""Maximum length of a bucket name."""
DIGITS = 8
"""Number of characters that distinguish names with the same beginning."""
RESERVED_PREFIXES = ("xn--", "sthree-", "amzn-s3-demo-")
"""Beginnings that AWS reserves."""
RESERVED_SUFFIXES = ("-s3alias", "--ol-s3", ".mrap", "--x-s3", "--table-s3", "-an")
"""Ends that AWS reserves for access points, directory buckets, Object Lambda and tables."""


def unique_suffix(*parts: str) -> str:
    """Returns the suffix that makes a name unique for a stack: a digest of the project, the stack and the account."""
    text = json.dumps(parts, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def _beginning(text: str) -> str:
    """Returns the lower-case letters, digits and single hyphens of a text, with a beginning that is not reserved."""
    name = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "plimsoll"
    while f"{name}-".startswith(RESERVED_PREFIXES):
        name = f"b-{name}"
    return name


def bucket_name(base: str, suffix: str) -> str:
    """Returns the name of a general purpose bucket, also valid for R2 and Google Cloud Storage."""
    # "goog" at the beginning and "google" anywhere are reserved by Google Cloud Storage.
    name = _beginning(base).replace("goog", "g-g")
    return f"{name[: LONGEST - len(suffix) - 1].rstrip('-')}-{suffix}"


def directory_bucket_name(base: str, suffix: str, zone_id: str) -> str:
    """Returns the name of a directory bucket in a zone: ``base-suffix--zone--x-s3``."""
    end = f"--{zone_id}--x-s3"
    room = LONGEST - len(end) - len(suffix) - 1
    if room < 1:
        raise ValueError(f"the zone id {zone_id} is too long for a bucket name")
    return f"{_beginning(base)[:room].rstrip('-')}-{suffix}{end}"


def bucket_name_fault(name: str) -> str | None:
    """Returns the rule that the name of a general purpose bucket breaks; ``None`` if it is valid."""
    rules = [
        (3 <= len(name) <= LONGEST, "3 to 63 characters"),
        (re.fullmatch(r"[a-z0-9.-]*", name), "only a-z, 0-9, '.' and '-'"),
        (re.fullmatch(r"[a-z0-9].*[a-z0-9]", name), "letters or digits at both ends"),
        (".." not in name, "no two adjacent periods"),
        (not re.fullmatch(r"\d+\.\d+\.\d+\.\d+", name), "not formatted as an IP address"),
        (not name.startswith(RESERVED_PREFIXES), "no reserved prefix"),
        (not name.endswith(RESERVED_SUFFIXES), "no reserved suffix"),
    ]
    return next((rule for holds, rule in rules if not holds), None)


def directory_bucket_name_fault(name: str) -> str | None:
    """Returns the rule that the name of a directory bucket breaks; ``None`` if it is valid."""
    rules = [
        (3 <= len(name) <= LONGEST, "3 to 63 characters"),
        (re.fullmatch(r"[a-z0-9-]*", name), "only a-z, 0-9 and '-'"),
        (re.match(r"[a-z0-9]", name), "a letter or digit at the beginning"),
        (re.fullmatch(r".+--[a-z0-9]+(-[a-z0-9]+)*-az\d+--x-s3", name), "the form base--zone--x-s3"),
        (not name.startswith(RESERVED_PREFIXES), "no reserved prefix"),
    ]
    return next((rule for holds, rule in rules if not holds), None)
