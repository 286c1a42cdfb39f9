# docs/install.md: the stack from Terraform, in front of a queue and its DLQ.

resource "aws_cloudformation_stack" "orders_replay" {
  name         = "orders-replay"
  template_url = "https://BUCKET.s3.eu-west-1.amazonaws.com/sqs-dlq-replay/0.1.0.yaml"
  capabilities = ["CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"]

  parameters = {
    MainQueueURL   = aws_sqs_queue.orders.url
    DLQArn         = aws_sqs_queue.orders_dlq.arn
    AlarmEmail     = "team@example.com"
    CreateSparkJob = "true"
  }
}

resource "aws_sqs_queue" "orders" {
  name                       = "orders"
  visibility_timeout_seconds = 180
  redrive_policy = jsonencode({
    deadLetterTargetArn = aws_sqs_queue.orders_dlq.arn
    maxReceiveCount     = 5
  })
}

resource "aws_sqs_queue" "orders_dlq" {
  name                       = "orders-dlq"
  visibility_timeout_seconds = 180
  message_retention_seconds  = 1209600
}

# A resource of its own: the stack needs the DLQ, and this needs the stack's parked queue.
resource "aws_sqs_queue_redrive_policy" "orders_dlq" {
  queue_url = aws_sqs_queue.orders_dlq.id
  redrive_policy = jsonencode({
    deadLetterTargetArn = aws_cloudformation_stack.orders_replay.outputs["ParkedQueueArn"]
    maxReceiveCount     = 1000
  })
}
