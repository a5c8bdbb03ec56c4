/** Creates buckets and a load generator, and exports the text of `plimsoll.toml`. */
import * as aws from "@pulumi/aws";
import * as pulumi from "@pulumi/pulumi";

import { budgetAlarm, generator } from "./generator";
import { uniqueSuffix } from "./names";
import * as stores from "./stores";
import { expressZone } from "./zones";

/** Kinds of stores that `plimsoll:stores` may name. */
const KINDS = ["express", "s3", "r2", "gcs"];

async function main() {
    const config = new pulumi.Config("plimsoll");
    const wanted = (config.get("stores") ?? "express,s3").split(",").map((kind) => kind.trim());
    const unknown = wanted.find((kind) => !KINDS.includes(kind));
    if (unknown !== undefined) {
        throw new Error(`plimsoll:stores: unknown store '${unknown}'; use ${KINDS.join(", ")}`);
    }
    const region = (await aws.getRegion({})).region;
    const account = (await aws.getCallerIdentity({})).accountId;
    const settings: stores.Settings = {
        base: config.get("name") ?? "plimsoll",
        suffix: uniqueSuffix(pulumi.getProject(), pulumi.getStack(), account),
        region,
        tags: { project: "plimsoll", stack: pulumi.getStack().toLowerCase().replace(/[^a-z0-9_-]/g, "-") },
        forceDestroy: config.getBoolean("forceDestroy") ?? false,
    };
    const withGenerator = config.getBoolean("generator") ?? false;
    let zoneId = "";
    if (withGenerator || wanted.includes("express")) {
        const zones = await aws.getAvailabilityZones({ state: "available" });
        zoneId = expressZone(region, zones.zoneIds, config.get("zone"));
    }
    const created = wanted.map((kind) => {
        switch (kind) {
            case "express":
                return stores.express(settings, zoneId);
            case "s3":
                return stores.s3(settings);
            case "r2":
                return stores.r2(settings, config.require("cloudflareAccount"), config.get("r2Location") ?? "ENAM");
            default:
                return stores.gcs(settings, config.get("gcsLocation") ?? "US-EAST1");
        }
    });
    const instanceType = config.get("instanceType") ?? "c7i.4xlarge";
    const machine = withGenerator ? generator({ ...settings, zoneId, instanceType }, created) : undefined;
    const budget = config.getNumber("budgetUsd");
    if (budget !== undefined) {
        budgetAlarm(settings, budget, config.require("budgetEmail"));
    }
    return {
        plimsollToml: stores.plimsollToml(created),
        urls: pulumi.all(Object.fromEntries(created.map((store) => [store.name, store.url]))),
        generator: machine?.id,
    };
}

export = main;
