"""Choice of an availability zone that offers S3 Express One Zone."""

from __future__ import annotations

import json
from pathlib import Path

_KNOWN = json.loads((Path(__file__).parents[2] / "express-zones.json").read_text())["zones"]


def express_zone(region: str, offered: list[str], wanted: str | None = None) -> str:
    """Returns the zone of the directory bucket and the load generator.

    It is ``wanted``, else the first zone of the account that offers S3 Express One Zone. ``offered`` are the zone ids of
    the account in ``region``; zone names such as ``us-east-1a`` differ between accounts.
    """
    if wanted is not None:
        # AWS adds zones, so the account's own list decides.
        if wanted not in offered:
            raise ValueError(f"plimsoll:zone {wanted} is no zone of {region}; use one of {', '.join(offered)}")
        return wanted
    zone = next((zone for zone in _KNOWN.get(region, []) if zone in offered), None)
    if zone is None:
        raise ValueError(
            f"no known zone of {region} offers S3 Express One Zone; set plimsoll:zone, or use one of "
            f"{', '.join(_KNOWN)}"
        )
    return zone
