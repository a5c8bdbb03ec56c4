# A virtual machine in the zone of the directory bucket. It accepts no connections; users reach it through Systems
# Manager. Its role has the rights that Plimsoll needs for the stores, and no others.

data "aws_ssm_parameter" "image" {
  count = var.generator ? 1 : 0
  name  = "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64"
}

data "aws_subnet" "generator" {
  count                = var.generator ? 1 : 0
  availability_zone_id = local.zone
  default_for_az       = true
}

data "aws_route_table" "main" {
  count  = var.generator ? 1 : 0
  vpc_id = data.aws_subnet.generator[0].vpc_id

  filter {
    name   = "association.main"
    values = ["true"]
  }
}

resource "aws_iam_role" "generator" {
  count = var.generator ? 1 : 0
  tags  = local.tags

  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Action    = "sts:AssumeRole"
      Principal = { Service = "ec2.amazonaws.com" }
    }]
  })
}

resource "aws_iam_role_policy_attachment" "systems_manager" {
  count      = var.generator ? 1 : 0
  role       = aws_iam_role.generator[0].name
  policy_arn = "arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore"
}

resource "aws_iam_role_policy" "generator" {
  for_each = var.generator ? local.policies : {}
  name     = each.key
  role     = aws_iam_role.generator[0].id
  policy   = each.value
}

resource "aws_iam_instance_profile" "generator" {
  count = var.generator ? 1 : 0
  role  = aws_iam_role.generator[0].name
  tags  = local.tags
}

# Gateway endpoints keep the traffic to S3 off the internet.
resource "aws_vpc_endpoint" "s3" {
  for_each          = var.generator ? toset(["s3", "s3express"]) : []
  vpc_id            = data.aws_subnet.generator[0].vpc_id
  service_name      = "com.amazonaws.${local.region}.${each.key}"
  vpc_endpoint_type = "Gateway"
  route_table_ids   = [data.aws_route_table.main[0].id]
  tags              = local.tags
}

resource "aws_security_group" "generator" {
  count       = var.generator ? 1 : 0
  description = "Plimsoll load generator: no incoming connections"
  vpc_id      = data.aws_subnet.generator[0].vpc_id
  tags        = local.tags

  egress {
    protocol    = "-1"
    from_port   = 0
    to_port     = 0
    cidr_blocks = ["0.0.0.0/0"]
  }
}

resource "aws_instance" "generator" {
  count                  = var.generator ? 1 : 0
  ami                    = data.aws_ssm_parameter.image[0].value
  instance_type          = var.instance_type
  subnet_id              = data.aws_subnet.generator[0].id
  vpc_security_group_ids = [aws_security_group.generator[0].id]
  iam_instance_profile   = aws_iam_instance_profile.generator[0].name
  tags                   = merge(local.tags, { Name = "${var.name}-generator" })

  # Version 1 of the metadata service gives credentials to any request.
  metadata_options {
    http_tokens                 = "required"
    http_put_response_hop_limit = 1
  }

  root_block_device {
    volume_type = "gp3"
    volume_size = 30
    encrypted   = true
  }
}
