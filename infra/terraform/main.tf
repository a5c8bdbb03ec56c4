data "aws_region" "this" {}

data "aws_caller_identity" "this" {}

data "aws_availability_zones" "this" {
  state = "available"
}

locals {
  region = data.aws_region.this.region
  suffix = substr(sha256(jsonencode([var.name, terraform.workspace, data.aws_caller_identity.this.account_id])), 0, 8)
  bucket = "${var.name}-${local.suffix}"
  tags   = { project = "plimsoll", stack = terraform.workspace }

  # The first zone that offers S3 Express One Zone, in the order of the list.
  known  = lookup(jsondecode(file("${path.module}/../express-zones.json")).zones, local.region, [])
  usable = [for zone in local.known : zone if contains(data.aws_availability_zones.this.zone_ids, zone)]
  zone   = var.zone != null ? var.zone : try(local.usable[0], null)

  # The documents that `plimsoll probe STORE --policy` prints.
  policies = {
    for store, file in { express = "s3-express", s3 = "s3" } : store => replace(
      replace(
        replace(file("${path.module}/../policy/${file}.json"), "__BUCKET__", local.names[store]),
        "__REGION__", local.region
      ),
      "__PREFIX__", ""
    ) if contains(var.stores, store)
  }
  names = { express = "${local.bucket}--${coalesce(local.zone, "none")}--x-s3", s3 = local.bucket }
}

resource "aws_s3_directory_bucket" "express" {
  count           = contains(var.stores, "express") ? 1 : 0
  bucket          = local.names.express
  data_redundancy = "SingleAvailabilityZone"
  type            = "Directory"
  force_destroy   = var.force_destroy
  tags            = local.tags

  location {
    name = local.zone
    type = "AvailabilityZone"
  }

  lifecycle {
    precondition {
      condition     = local.zone != null
      error_message = "No known zone of ${local.region} offers S3 Express One Zone; set the variable zone."
    }
  }
}

resource "aws_s3_bucket" "s3" {
  count         = contains(var.stores, "s3") ? 1 : 0
  bucket        = local.names.s3
  force_destroy = var.force_destroy
  tags          = local.tags
}

resource "aws_s3_bucket_public_access_block" "s3" {
  count                   = contains(var.stores, "s3") ? 1 : 0
  bucket                  = aws_s3_bucket.s3[0].bucket
  block_public_acls       = true
  block_public_policy     = true
  ignore_public_acls      = true
  restrict_public_buckets = true
}

resource "aws_s3_bucket_lifecycle_configuration" "s3" {
  count  = contains(var.stores, "s3") ? 1 : 0
  bucket = aws_s3_bucket.s3[0].bucket

  rule {
    id     = "abort-uploads"
    status = "Enabled"

    filter {
      prefix = ""
    }

    abort_incomplete_multipart_upload {
      days_after_initiation = 1
    }
  }
}

resource "cloudflare_r2_bucket" "r2" {
  count      = contains(var.stores, "r2") ? 1 : 0
  account_id = var.cloudflare_account
  name       = local.bucket
  location   = var.r2_location
}

resource "google_storage_bucket" "gcs" {
  count                       = contains(var.stores, "gcs") ? 1 : 0
  name                        = local.bucket
  location                    = var.gcs_location
  force_destroy               = var.force_destroy
  uniform_bucket_level_access = true
  public_access_prevention    = "enforced"
  labels                      = local.tags

  # Deleted objects would otherwise be billed for a week.
  soft_delete_policy {
    retention_duration_seconds = 0
  }
}

resource "aws_budgets_budget" "plimsoll" {
  count        = var.budget != null ? 1 : 0
  budget_type  = "COST"
  limit_amount = tostring(var.budget.usd)
  limit_unit   = "USD"
  time_unit    = "MONTHLY"

  cost_filter {
    name   = "TagKeyValue"
    values = ["user:project$plimsoll"]
  }

  dynamic "notification" {
    for_each = { ACTUAL = 80, FORECASTED = 100 }

    content {
      comparison_operator        = "GREATER_THAN"
      notification_type          = notification.key
      threshold                  = notification.value
      threshold_type             = "PERCENTAGE"
      subscriber_email_addresses = [var.budget.email]
    }
  }
}
