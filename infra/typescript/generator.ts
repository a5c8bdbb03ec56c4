/** A virtual machine in the zone of the directory bucket, on which Plimsoll runs. */
import * as aws from "@pulumi/aws";
import * as pulumi from "@pulumi/pulumi";

import { Settings, Store } from "./stores";

/** Amazon Linux 2023, as a public parameter of Systems Manager. */
const IMAGE = "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64";

/** Settings of the load generator. */
export interface GeneratorSettings extends Settings {
    /** Zone of the machine, such as `use1-az4`. */
    zoneId: string;
    /** Instance type, such as `c7i.4xlarge`. */
    instanceType: string;
}

/**
 * Creates the machine. It accepts no connections; users reach it through Systems Manager. Its role has the rights that
 * Plimsoll needs for the stores, and no others. Gateway endpoints keep the traffic to S3 off the internet.
 */
export function generator(settings: GeneratorSettings, stores: Store[]): aws.ec2.Instance {
    const { base, region, zoneId, tags } = settings;
    const role = new aws.iam.Role("generator", {
        assumeRolePolicy: JSON.stringify({
            Version: "2012-10-17",
            Statement: [{ Effect: "Allow", Action: "sts:AssumeRole", Principal: { Service: "ec2.amazonaws.com" } }],
        }),
        managedPolicyArns: ["arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore"],
        tags,
    });
    for (const store of stores) {
        if (store.policy !== undefined) {
            new aws.iam.RolePolicy(`generator-${store.name}`, { role: role.id, policy: store.policy });
        }
    }
    const profile = new aws.iam.InstanceProfile("generator", { role: role.name, tags });
    const subnet = aws.ec2.getSubnetOutput({ availabilityZoneId: zoneId, defaultForAz: true });
    const routes = aws.ec2.getRouteTableOutput({
        vpcId: subnet.vpcId,
        filters: [{ name: "association.main", values: ["true"] }],
    });
    for (const service of ["s3", "s3express"]) {
        new aws.ec2.VpcEndpoint(service, {
            vpcId: subnet.vpcId,
            serviceName: `com.amazonaws.${region}.${service}`,
            vpcEndpointType: "Gateway",
            routeTableIds: [routes.routeTableId],
            tags,
        });
    }
    const group = new aws.ec2.SecurityGroup("generator", {
        description: "Plimsoll load generator: no incoming connections",
        vpcId: subnet.vpcId,
        egress: [{ protocol: "-1", fromPort: 0, toPort: 0, cidrBlocks: ["0.0.0.0/0"] }],
        tags,
    });
    return new aws.ec2.Instance("generator", {
        ami: aws.ssm.getParameterOutput({ name: IMAGE }).value,
        instanceType: settings.instanceType,
        subnetId: subnet.id,
        vpcSecurityGroupIds: [group.id],
        iamInstanceProfile: profile.name,
        // Version 1 of the metadata service gives credentials to any request.
        metadataOptions: { httpTokens: "required", httpPutResponseHopLimit: 1 },
        rootBlockDevice: { volumeType: "gp3", volumeSize: 30, encrypted: true },
        tags: { ...tags, Name: `${base}-generator` },
    });
}

/** Creates an alarm by mail at 80% of a monthly budget, and when the forecast exceeds it. */
export function budgetAlarm(settings: Settings, usd: number, email: pulumi.Input<string>): aws.budgets.Budget {
    const notification = (notificationType: string, threshold: number) => ({
        comparisonOperator: "GREATER_THAN",
        notificationType,
        threshold,
        thresholdType: "PERCENTAGE",
        subscriberEmailAddresses: [email],
    });
    return new aws.budgets.Budget("plimsoll", {
        budgetType: "COST",
        limitAmount: String(usd),
        limitUnit: "USD",
        timeUnit: "MONTHLY",
        costFilters: [{ name: "TagKeyValue", values: [`user:project$${settings.tags.project}`] }],
        notifications: [notification("ACTUAL", 80), notification("FORECASTED", 100)],
    });
}
