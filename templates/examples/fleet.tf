# docs/fleet.md: a fleet in each Region, and the queues that join it in one of them. AWS provider 6 or later.

locals {
  tag     = "dlq-fleet"
  regions = toset(["eu-west-1", "us-east-1"])
  queues  = toset(["orders", "invoices", "refunds"])
}

resource "aws_cloudformation_stack" "fleet" {
  for_each = local.regions

  region = each.key
  name   = local.tag
  # From `make processed-template`: it takes the code from a bucket of each Region.
  template_url = "https://BUCKET.s3.eu-west-1.amazonaws.com/sqs-dlq-replay.json"
  capabilities = ["CAPABILITY_IAM"]

  parameters = {
    QueueTag       = local.tag
    Sweep          = "true"
    AlarmEmail     = "team@example.com"
    CreateSparkJob = "true"
  }
}

resource "aws_sqs_queue" "main" {
  for_each = local.queues

  region                     = "eu-west-1"
  name                       = each.key
  visibility_timeout_seconds = 180
  redrive_policy = jsonencode({
    deadLetterTargetArn = aws_sqs_queue.dlq[each.key].arn
    maxReceiveCount     = 5
  })
  tags = { "dlq-replay" = local.tag }
}

resource "aws_sqs_queue" "dlq" {
  for_each = local.queues

  region                     = "eu-west-1"
  name                       = "${each.key}-dlq"
  visibility_timeout_seconds = 180
  message_retention_seconds  = 1209600
  redrive_policy = jsonencode({
    deadLetterTargetArn = aws_cloudformation_stack.fleet["eu-west-1"].outputs["ParkedQueueArn"]
    maxReceiveCount     = 1000
  })
  tags = { "dlq-replay" = local.tag }
}

# Only for a hot queue, which does not wait for the sweep then.
resource "aws_lambda_event_source_mapping" "orders_dlq" {
  region                             = "eu-west-1"
  function_name                      = aws_cloudformation_stack.fleet["eu-west-1"].outputs["ReplayFunctionArn"]
  event_source_arn                   = aws_sqs_queue.dlq["orders"].arn
  batch_size                         = 100
  maximum_batching_window_in_seconds = 1
  function_response_types            = ["ReportBatchItemFailures"]

  scaling_config {
    maximum_concurrency = 2
  }
}
