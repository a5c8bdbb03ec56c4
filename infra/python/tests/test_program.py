"""The program with mocked providers: properties of the resources that it declares."""

import json
import re
import sys
from pathlib import Path

import pulumi

sys.path.insert(0, str(Path(__file__).parents[1]))

ANSWERS = {
    "aws:index/getRegion:getRegion": {"region": "us-east-1", "name": "us-east-1"},
    "aws:index/getCallerIdentity:getCallerIdentity": {"accountId": "123456789012"},
    "aws:index/getAvailabilityZones:getAvailabilityZones": {"zoneIds": ["use1-az1", "use1-az4", "use1-az5"]},
    "aws:ec2/getSubnet:getSubnet": {"id": "subnet-1", "vpcId": "vpc-1"},
    "aws:ec2/getRouteTable:getRouteTable": {"routeTableId": "rtb-1"},
    "aws:ssm/getParameter:getParameter": {"value": "ami-1"},
}
declared = []


class Mocks(pulumi.runtime.Mocks):
    """Records the declared resources and answers the calls of data sources."""

    def new_resource(self, args):
        declared.append(args)
        return f"{args.name}-id", args.inputs

    def call(self, args):
        return ANSWERS[args.token]


pulumi.runtime.set_mocks(Mocks(), project="plimsoll", stack="Test Stack", preview=False)
pulumi.runtime.set_all_config({
    "plimsoll:stores": "express,s3,r2,gcs",
    "plimsoll:generator": "true",
    "plimsoll:cloudflareAccount": "abcdef",
    "plimsoll:budgetUsd": "50",
    "plimsoll:budgetEmail": "team@example.com",
})

exported = {}


def only(kind):
    """Returns the inputs of the only resource of a type."""
    found = [resource.inputs for resource in declared if resource.typ == kind]
    assert len(found) == 1, (kind, sorted(resource.typ for resource in declared))
    return found[0]


@pulumi.runtime.test
def declare():
    """Runs the program. Returns once all its resources are declared, which is later than its outputs are known."""
    from plimsoll_infra import program

    program.pulumi.export = lambda name, value: exported.__setitem__(name, value)
    program.main()

    def record(values):
        exported["plimsollToml"], exported["generator"] = values

    return pulumi.Output.all(exported["plimsollToml"], exported["generator"]).apply(record)


def test_the_program_declares_private_buckets_a_machine_and_an_alarm():
    declare()
    toml = exported["plimsollToml"]
    assert exported["generator"] == "generator-id"
    express = only("aws:s3/directoryBucket:DirectoryBucket")
    assert re.fullmatch(r"plimsoll-[0-9a-f]{8}--use1-az4--x-s3", express["bucket"])
    assert express["location"] == {"name": "use1-az4", "type": "AvailabilityZone"}
    for bucket in (express, only("aws:s3/bucket:Bucket"), only("gcp:storage/bucket:Bucket")):
        assert bucket["forceDestroy"] is False, "buckets with objects are kept by default"
        assert (bucket.get("tags") or bucket["labels"])["project"] == "plimsoll"
    assert only("aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock")["restrictPublicBuckets"] is True
    assert only("gcp:storage/bucket:Bucket")["publicAccessPrevention"] == "enforced"
    instance = only("aws:ec2/instance:Instance")
    assert instance["metadataOptions"]["httpTokens"] == "required"
    assert instance["subnetId"] == "subnet-1"
    assert "ingress" not in only("aws:ec2/securityGroup:SecurityGroup"), "no incoming connections"
    policies = [r.inputs["policy"] for r in declared if r.typ == "aws:iam/rolePolicy:RolePolicy"]
    assert len(policies) == 2
    for policy in policies:
        for statement in json.loads(policy)["Statement"]:
            assert "*" not in json.dumps(statement["Action"]) and "plimsoll-" in statement["Resource"]
    budget = only("aws:budgets/budget:Budget")
    assert budget["limitAmount"] == "50"
    assert budget["notifications"][0]["subscriberEmailAddresses"] == ["team@example.com"]
    assert re.search(r'\[store\.express\]\nurl = "s3://plimsoll-[0-9a-f]{8}--use1-az4--x-s3"', toml)
    assert re.search(r'\[store\.r2\]\nurl = "s3://plimsoll-[0-9a-f]{8}\?endpoint=https://abcdef\.r2\.', toml)
    assert re.search(r'\[store\.gcs\]\nurl = "gs://plimsoll-[0-9a-f]{8}"', toml)
