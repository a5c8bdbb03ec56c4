"""The program: creates buckets and a load generator, and exports the text of ``plimsoll.toml``."""

from __future__ import annotations

import re

import pulumi
import pulumi_aws as aws

from . import stores
from .generator import budget_alarm, generator
from .names import unique_suffix
from .zones import express_zone

KINDS = ("express", "s3", "r2", "gcs")
"""Kinds of stores that ``plimsoll:stores`` may name."""


def main() -> None:
    """Declares the resources that the configuration asks for."""
    config = pulumi.Config("plimsoll")
    wanted = [kind.strip() for kind in (config.get("stores") or "express,s3").split(",")]
    for kind in wanted:
        if kind not in KINDS:
            raise ValueError(f"plimsoll:stores: unknown store '{kind}'; use {', '.join(KINDS)}")
    region = aws.get_region().region
    settings = stores.Settings(
        base=config.get("name") or "plimsoll",
        suffix=unique_suffix(pulumi.get_project(), pulumi.get_stack(), aws.get_caller_identity().account_id),
        region=region,
        tags={"project": "plimsoll", "stack": re.sub(r"[^a-z0-9_-]", "-", pulumi.get_stack().lower())},
        force_destroy=config.get_bool("forceDestroy") or False,
    )
    with_generator = config.get_bool("generator") or False
    zone_id = ""
    if with_generator or "express" in wanted:
        zone_id = express_zone(region, aws.get_availability_zones(state="available").zone_ids, config.get("zone"))
    makers = {
        "express": lambda: stores.express(settings, zone_id),
        "s3": lambda: stores.s3(settings),
        "r2": lambda: stores.r2(settings, config.require("cloudflareAccount"), config.get("r2Location") or "ENAM"),
        "gcs": lambda: stores.gcs(settings, config.get("gcsLocation") or "US-EAST1"),
    }
    created = [makers[kind]() for kind in wanted]
    if with_generator:
        machine = generator(settings, created, zone_id, config.get("instanceType") or "c7i.4xlarge")
        pulumi.export("generator", machine.id)
    budget = config.get_float("budgetUsd")
    if budget is not None:
        budget_alarm(settings, budget, config.require("budgetEmail"))
    pulumi.export("plimsollToml", stores.plimsoll_toml(created))
    pulumi.export("urls", {store.name: store.url for store in created})
