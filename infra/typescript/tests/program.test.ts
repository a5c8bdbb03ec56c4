/** The program with mocked providers: properties of the resources that it declares. */
import assert from "node:assert/strict";
import { test } from "node:test";

import * as pulumi from "@pulumi/pulumi";

interface Declared {
    type: string;
    name: string;
    inputs: any;
}

const declared: Declared[] = [];

pulumi.runtime.setMocks(
    {
        newResource(args) {
            declared.push({ type: args.type, name: args.name, inputs: args.inputs });
            return { id: `${args.name}-id`, state: args.inputs };
        },
        call(args) {
            switch (args.token) {
                case "aws:index/getRegion:getRegion":
                    return { region: "us-east-1", name: "us-east-1" };
                case "aws:index/getCallerIdentity:getCallerIdentity":
                    return { accountId: "123456789012" };
                case "aws:index/getAvailabilityZones:getAvailabilityZones":
                    return { zoneIds: ["use1-az1", "use1-az4", "use1-az5"] };
                case "aws:ec2/getSubnet:getSubnet":
                    return { id: "subnet-1", vpcId: "vpc-1" };
                case "aws:ec2/getRouteTable:getRouteTable":
                    return { routeTableId: "rtb-1" };
                case "aws:ssm/getParameter:getParameter":
                    return { value: "ami-1" };
                default:
                    throw new Error(`unexpected call ${args.token}`);
            }
        },
    },
    "plimsoll",
    "Test Stack",
    false,
);
pulumi.runtime.setAllConfig({
    "plimsoll:stores": "express,s3,r2,gcs",
    "plimsoll:generator": "true",
    "plimsoll:cloudflareAccount": "abcdef",
    "plimsoll:budgetUsd": "50",
    "plimsoll:budgetEmail": "team@example.com",
});

/** Returns the value of an output. */
function value<T>(output: pulumi.Output<T>): Promise<T> {
    return new Promise((resolve) => output.apply(resolve));
}

/** Returns the inputs of the only resource of a type. */
function only(type: string): any {
    const found = declared.filter((resource) => resource.type === type);
    assert.equal(found.length, 1, type);
    return found[0].inputs;
}

test("the program declares private buckets, a machine in the zone of the directory bucket, and an alarm", async () => {
    const main = require("../index");
    const outputs = await main();
    const toml = await value<string>(outputs.plimsollToml);
    const generator = await value<string>(outputs.generator);
    await pulumi.runtime.disconnect(); // Outputs are known before all resources are declared.
    assert.equal(generator, "generator-id");

    const express = only("aws:s3/directoryBucket:DirectoryBucket");
    assert.match(express.bucket, /^plimsoll-[0-9a-f]{8}--use1-az4--x-s3$/);
    assert.deepEqual(express.location, { name: "use1-az4", type: "AvailabilityZone" });
    const buckets = [express, only("aws:s3/bucket:Bucket"), only("gcp:storage/bucket:Bucket")];
    for (const bucket of buckets) {
        assert.equal(bucket.forceDestroy, false, "buckets with objects are kept by default");
        assert.equal((bucket.tags ?? bucket.labels).project, "plimsoll");
    }
    assert.equal(only("aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock").restrictPublicBuckets, true);
    assert.equal(only("gcp:storage/bucket:Bucket").publicAccessPrevention, "enforced");

    const instance = only("aws:ec2/instance:Instance");
    assert.equal(instance.metadataOptions.httpTokens, "required");
    assert.equal(instance.subnetId, "subnet-1");
    assert.equal(only("aws:ec2/securityGroup:SecurityGroup").ingress, undefined, "no incoming connections");
    const policies = declared.filter((resource) => resource.type === "aws:iam/rolePolicy:RolePolicy");
    const texts = policies.map((resource) => resource.inputs.policy);
    assert.equal(policies.length, 2);
    for (const text of texts) {
        const statements = JSON.parse(text).Statement;
        const actions = statements.flatMap((statement: any) => statement.Action);
        assert.ok(actions.every((action: string) => !action.includes("*")), text);
        assert.ok(statements.every((statement: any) => statement.Resource.includes("plimsoll-")), text);
    }
    const budget = only("aws:budgets/budget:Budget");
    assert.equal(budget.limitAmount, "50");
    assert.deepEqual(budget.notifications[0].subscriberEmailAddresses, ["team@example.com"]);

    assert.match(toml, /\[store\.express\]\nurl = "s3:\/\/plimsoll-[0-9a-f]{8}--use1-az4--x-s3"/);
    assert.match(toml, /\[store\.r2\]\nurl = "s3:\/\/plimsoll-[0-9a-f]{8}\?endpoint=https:\/\/abcdef\.r2\./);
    assert.match(toml, /\[store\.gcs\]\nurl = "gs:\/\/plimsoll-[0-9a-f]{8}"/);
    assert.match(toml, /access_key_env = "R2_ACCESS_KEY"/);
});
