"""Buckets of four providers, with the tables that name them in ``plimsoll.toml``."""

from __future__ import annotations

from dataclasses import dataclass, field

import pulumi
import pulumi_aws as aws
import pulumi_cloudflare as cloudflare
import pulumi_gcp as gcp

from .names import bucket_name, directory_bucket_name
from .policy import policy


@dataclass
class Store:
    """A bucket that Plimsoll can use."""

    name: str
    """Name of the table in ``plimsoll.toml``."""
    url: pulumi.Output[str]
    """URL of the store."""
    policy: pulumi.Output[str] | None = None
    """Policy of the load generator; ``None`` if the provider is not AWS."""
    more: list[str] = field(default_factory=list)
    """Lines of the table after the URL."""


@dataclass
class Settings:
    """Settings that all stores share."""

    base: str
    """Beginning of all names."""
    suffix: str
    """End of all names, which makes them unique."""
    region: str
    """Region of AWS."""
    tags: dict[str, str]
    """Tags of all resources."""
    force_destroy: bool
    """True to delete buckets that contain objects."""


def express(settings: Settings, zone_id: str) -> Store:
    """Creates a directory bucket (S3 Express One Zone) in a zone."""
    bucket = aws.s3.DirectoryBucket(
        "express",
        bucket=directory_bucket_name(settings.base, settings.suffix, zone_id),
        data_redundancy="SingleAvailabilityZone",
        type="Directory",
        location=aws.s3.DirectoryBucketLocationArgs(name=zone_id, type="AvailabilityZone"),
        force_destroy=settings.force_destroy,
        tags=settings.tags,
    )
    return Store(
        "express",
        pulumi.Output.concat("s3://", bucket.bucket),
        bucket.bucket.apply(lambda name: policy("s3-express", name, settings.region)),
    )


def s3(settings: Settings) -> Store:
    """Creates a general purpose bucket that is private and aborts forgotten uploads after a day."""
    bucket = aws.s3.Bucket(
        "s3",
        bucket=bucket_name(settings.base, settings.suffix),
        force_destroy=settings.force_destroy,
        tags=settings.tags,
    )
    aws.s3.BucketPublicAccessBlock(
        "s3",
        bucket=bucket.bucket,
        block_public_acls=True,
        block_public_policy=True,
        ignore_public_acls=True,
        restrict_public_buckets=True,
    )
    aws.s3.BucketLifecycleConfiguration(
        "s3",
        bucket=bucket.bucket,
        rules=[
            aws.s3.BucketLifecycleConfigurationRuleArgs(
                id="abort-uploads",
                status="Enabled",
                filter=aws.s3.BucketLifecycleConfigurationRuleFilterArgs(prefix=""),
                abort_incomplete_multipart_upload=(
                    aws.s3.BucketLifecycleConfigurationRuleAbortIncompleteMultipartUploadArgs(days_after_initiation=1)
                ),
            )
        ],
    )
    return Store(
        "s3",
        pulumi.Output.concat("s3://", bucket.bucket, "?region=", settings.region),
        bucket.bucket.apply(lambda name: policy("s3", name, settings.region)),
    )


def r2(settings: Settings, account_id: str, location: str) -> Store:
    """Creates an R2 bucket. Tokens of R2 are created in Cloudflare's dashboard; the table names their variables."""
    name = bucket_name(settings.base, settings.suffix)
    bucket = cloudflare.R2Bucket("r2", account_id=account_id, name=name, location=location)
    endpoint = f"?endpoint=https://{account_id}.r2.cloudflarestorage.com&region=auto"
    return Store(
        "r2",
        pulumi.Output.concat("s3://", bucket.name, endpoint),
        more=['access_key_env = "R2_ACCESS_KEY"', 'secret_key_env = "R2_SECRET_KEY"'],
    )


def gcs(settings: Settings, location: str) -> Store:
    """Creates a bucket of Google Cloud Storage without public access."""
    bucket = gcp.storage.Bucket(
        "gcs",
        name=bucket_name(settings.base, settings.suffix),
        location=location,
        force_destroy=settings.force_destroy,
        uniform_bucket_level_access=True,
        public_access_prevention="enforced",
        # Deleted objects would otherwise be billed for a week.
        soft_delete_policy=gcp.storage.BucketSoftDeletePolicyArgs(retention_duration_seconds=0),
        labels=settings.tags,
    )
    return Store("gcs", pulumi.Output.concat("gs://", bucket.name))


def plimsoll_toml(stores: list[Store]) -> pulumi.Output[str]:
    """Returns the text of ``plimsoll.toml`` for the stores."""

    def table(store: Store) -> pulumi.Output[str]:
        return store.url.apply(lambda url: "\n".join([f"[store.{store.name}]", f'url = "{url}"', *store.more]))

    return pulumi.Output.all(*map(table, stores)).apply(lambda tables: "\n\n".join(tables) + "\n")
