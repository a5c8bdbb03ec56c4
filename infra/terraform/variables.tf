variable "stores" {
  description = "Stores to create: any of express, s3, r2, gcs"
  type        = set(string)
  default     = ["express", "s3"]

  validation {
    condition     = length(setsubtract(var.stores, ["express", "s3", "r2", "gcs"])) == 0
    error_message = "Use express, s3, r2 and gcs only."
  }
}

variable "name" {
  description = "Beginning of all names: lower-case letters, digits and hyphens"
  type        = string
  default     = "plimsoll"

  validation {
    condition     = can(regex("^[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?$", var.name)) && !can(regex("^(xn--|sthree-|amzn-s3-demo-|goog)|google|--", var.name))
    error_message = "Use at most 22 lower-case letters, digits and single hyphens, without a reserved beginning."
  }
}

variable "zone" {
  description = "Zone id of the directory bucket and the load generator; by default the first zone that offers S3 Express One Zone"
  type        = string
  default     = null
}

variable "force_destroy" {
  description = "True to delete buckets that contain objects"
  type        = bool
  default     = false
}

variable "generator" {
  description = "True to create a load generator in the zone of the directory bucket"
  type        = bool
  default     = false
}

variable "instance_type" {
  description = "Instance type of the load generator"
  type        = string
  default     = "c7i.4xlarge"
}

variable "cloudflare_account" {
  description = "Account id for R2"
  type        = string
  default     = null
}

variable "r2_location" {
  description = "Location hint of the R2 bucket"
  type        = string
  default     = "ENAM"
}

variable "gcs_location" {
  description = "Location of the bucket of Google Cloud Storage"
  type        = string
  default     = "US-EAST1"
}

variable "budget" {
  description = "Monthly budget in US dollars and the address of its alarm; null for no alarm"
  type        = object({ usd = number, email = string })
  default     = null
}
