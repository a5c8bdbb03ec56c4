"""Least-privilege policies: the documents that ``plimsoll probe STORE --policy`` prints."""

from __future__ import annotations

from pathlib import Path

_TEMPLATES = Path(__file__).parents[2] / "policy"


def policy(kind: str, bucket: str, region: str, prefix: str = "") -> str:
    """Returns the policy for a bucket. ``kind`` is s3 or s3-express; ``prefix`` is empty or ends in a slash."""
    text = (_TEMPLATES / f"{kind}.json").read_text()
    return text.replace("__BUCKET__", bucket).replace("__REGION__", region).replace("__PREFIX__", prefix)
