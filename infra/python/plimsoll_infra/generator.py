"""A virtual machine in the zone of the directory bucket, on which Plimsoll runs, and a budget alarm."""

from __future__ import annotations

import json

import pulumi_aws as aws

from .stores import Settings, Store

IMAGE = "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64"
"""Amazon Linux 2023, as a public parameter of Systems Manager."""


def _role(settings: Settings, stores: list[Store]) -> aws.iam.InstanceProfile:
    """Creates a role with the rights that Plimsoll needs for the stores, and no others."""
    trust = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": "ec2.amazonaws.com"}}
    role = aws.iam.Role(
        "generator",
        assume_role_policy=json.dumps({"Version": "2012-10-17", "Statement": [trust]}),
        managed_policy_arns=["arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore"],
        tags=settings.tags,
    )
    for store in stores:
        if store.policy is not None:
            aws.iam.RolePolicy(f"generator-{store.name}", role=role.id, policy=store.policy)
    return aws.iam.InstanceProfile("generator", role=role.name, tags=settings.tags)


def generator(settings: Settings, stores: list[Store], zone_id: str, instance_type: str) -> aws.ec2.Instance:
    """Creates the machine.

    It accepts no connections; users reach it through Systems Manager. Gateway endpoints keep the traffic to S3 off the
    internet.
    """
    profile = _role(settings, stores)
    subnet = aws.ec2.get_subnet_output(availability_zone_id=zone_id, default_for_az=True)
    routes = aws.ec2.get_route_table_output(
        vpc_id=subnet.vpc_id, filters=[aws.ec2.GetRouteTableFilterArgs(name="association.main", values=["true"])]
    )
    for service in ("s3", "s3express"):
        aws.ec2.VpcEndpoint(
            service,
            vpc_id=subnet.vpc_id,
            service_name=f"com.amazonaws.{settings.region}.{service}",
            vpc_endpoint_type="Gateway",
            route_table_ids=[routes.route_table_id],
            tags=settings.tags,
        )
    group = aws.ec2.SecurityGroup(
        "generator",
        description="Plimsoll load generator: no incoming connections",
        vpc_id=subnet.vpc_id,
        egress=[aws.ec2.SecurityGroupEgressArgs(protocol="-1", from_port=0, to_port=0, cidr_blocks=["0.0.0.0/0"])],
        tags=settings.tags,
    )
    return aws.ec2.Instance(
        "generator",
        ami=aws.ssm.get_parameter_output(name=IMAGE).value,
        instance_type=instance_type,
        subnet_id=subnet.id,
        vpc_security_group_ids=[group.id],
        iam_instance_profile=profile.name,
        # Version 1 of the metadata service gives credentials to any request.
        metadata_options=aws.ec2.InstanceMetadataOptionsArgs(http_tokens="required", http_put_response_hop_limit=1),
        root_block_device=aws.ec2.InstanceRootBlockDeviceArgs(volume_type="gp3", volume_size=30, encrypted=True),
        tags={**settings.tags, "Name": f"{settings.base}-generator"},
    )


def budget_alarm(settings: Settings, usd: float, email: str) -> aws.budgets.Budget:
    """Creates an alarm by mail at 80% of a monthly budget, and when the forecast exceeds it."""

    def notification(kind: str, threshold: int) -> aws.budgets.BudgetNotificationArgs:
        return aws.budgets.BudgetNotificationArgs(
            comparison_operator="GREATER_THAN",
            notification_type=kind,
            threshold=threshold,
            threshold_type="PERCENTAGE",
            subscriber_email_addresses=[email],
        )

    values = [f"user:project${settings.tags['project']}"]
    return aws.budgets.Budget(
        "plimsoll",
        budget_type="COST",
        limit_amount=f"{usd:g}",
        limit_unit="USD",
        time_unit="MONTHLY",
        cost_filters=[aws.budgets.BudgetCostFilterArgs(name="TagKeyValue", values=values)],
        notifications=[notification("ACTUAL", 80), notification("FORECASTED", 100)],
    )
