locals {
  urls = merge(
    { for bucket in aws_s3_directory_bucket.express : "express" => "s3://${bucket.bucket}" },
    { for bucket in aws_s3_bucket.s3 : "s3" => "s3://${bucket.bucket}?region=${local.region}" },
    {
      for bucket in cloudflare_r2_bucket.r2 :
      "r2" => "s3://${bucket.name}?endpoint=https://${var.cloudflare_account}.r2.cloudflarestorage.com&region=auto"
    },
    { for bucket in google_storage_bucket.gcs : "gcs" => "gs://${bucket.name}" },
  )
  keys = { r2 = "access_key_env = \"R2_ACCESS_KEY\"\nsecret_key_env = \"R2_SECRET_KEY\"\n" }
}

output "urls" {
  description = "URLs of the stores"
  value       = local.urls
}

output "plimsoll_toml" {
  description = "Text of plimsoll.toml"
  value = join("\n", [
    for name, url in local.urls : "[store.${name}]\nurl = \"${url}\"\n${lookup(local.keys, name, "")}"
  ])
}

output "generator" {
  description = "Instance id of the load generator"
  value       = one(aws_instance.generator[*].id)
}
