/** Buckets of four providers, with the tables that name them in `plimsoll.toml`. */
import * as aws from "@pulumi/aws";
import * as cloudflare from "@pulumi/cloudflare";
import * as gcp from "@pulumi/gcp";
import * as pulumi from "@pulumi/pulumi";

import { bucketName, directoryBucketName } from "./names";
import { policy } from "./policy";

/** A bucket that Plimsoll can use. */
export interface Store {
    /** Name of the table in `plimsoll.toml`. */
    name: string;
    /** URL of the store. */
    url: pulumi.Output<string>;
    /** Policy of the load generator; `undefined` if the provider is not AWS. */
    policy?: pulumi.Output<string>;
    /** Lines of the table after the URL. */
    more?: string[];
}

/** Settings that all stores share. */
export interface Settings {
    /** Beginning of all names. */
    base: string;
    /** End of all names, which makes them unique. */
    suffix: string;
    /** Region of AWS. */
    region: string;
    /** Tags of all resources. */
    tags: Record<string, string>;
    /** True to delete buckets that contain objects. */
    forceDestroy: boolean;
}

/** Creates a directory bucket (S3 Express One Zone) in a zone. */
export function express(settings: Settings, zoneId: string): Store {
    const { base, suffix, region, tags, forceDestroy } = settings;
    const bucket = new aws.s3.DirectoryBucket("express", {
        bucket: directoryBucketName(base, suffix, zoneId),
        dataRedundancy: "SingleAvailabilityZone",
        type: "Directory",
        location: { name: zoneId, type: "AvailabilityZone" },
        forceDestroy,
        tags,
    });
    return {
        name: "express",
        url: pulumi.interpolate`s3://${bucket.bucket}`,
        policy: bucket.bucket.apply((name) => policy("s3-express", name, region)),
    };
}

/** Creates a general purpose bucket that is private and aborts forgotten uploads after a day. */
export function s3(settings: Settings): Store {
    const { base, suffix, region, tags, forceDestroy } = settings;
    const bucket = new aws.s3.Bucket("s3", { bucket: bucketName(base, suffix), forceDestroy, tags });
    new aws.s3.BucketPublicAccessBlock("s3", {
        bucket: bucket.bucket,
        blockPublicAcls: true,
        blockPublicPolicy: true,
        ignorePublicAcls: true,
        restrictPublicBuckets: true,
    });
    new aws.s3.BucketLifecycleConfiguration("s3", {
        bucket: bucket.bucket,
        rules: [
            {
                id: "abort-uploads",
                status: "Enabled",
                filter: { prefix: "" },
                abortIncompleteMultipartUpload: { daysAfterInitiation: 1 },
            },
        ],
    });
    return {
        name: "s3",
        url: pulumi.interpolate`s3://${bucket.bucket}?region=${region}`,
        policy: bucket.bucket.apply((name) => policy("s3", name, region)),
    };
}

/** Creates an R2 bucket. Tokens of R2 are created in Cloudflare's dashboard; the table names their variables. */
export function r2(settings: Settings, accountId: string, location: string): Store {
    const { base, suffix } = settings;
    const bucket = new cloudflare.R2Bucket("r2", { accountId, name: bucketName(base, suffix), location });
    return {
        name: "r2",
        url: pulumi.interpolate`s3://${bucket.name}?endpoint=https://${accountId}.r2.cloudflarestorage.com&region=auto`,
        more: ['access_key_env = "R2_ACCESS_KEY"', 'secret_key_env = "R2_SECRET_KEY"'],
    };
}

/** Creates a bucket of Google Cloud Storage without public access. */
export function gcs(settings: Settings, location: string): Store {
    const { base, suffix, tags, forceDestroy } = settings;
    const bucket = new gcp.storage.Bucket("gcs", {
        name: bucketName(base, suffix),
        location,
        forceDestroy,
        uniformBucketLevelAccess: true,
        publicAccessPrevention: "enforced",
        // Deleted objects would otherwise be billed for a week.
        softDeletePolicy: { retentionDurationSeconds: 0 },
        labels: tags,
    });
    return { name: "gcs", url: pulumi.interpolate`gs://${bucket.name}` };
}

/** Returns the text of `plimsoll.toml` for the stores. */
export function plimsollToml(stores: Store[]): pulumi.Output<string> {
    const table = (store: Store) =>
        store.url.apply((url) => [`[store.${store.name}]`, `url = "${url}"`, ...(store.more ?? [])].join("\n"));
    return pulumi.all(stores.map(table)).apply((tables) => tables.join("\n\n") + "\n");
}
