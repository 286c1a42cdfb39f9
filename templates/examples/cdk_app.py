"""docs/install.md: the application from the CDK, out of the Serverless Application Repository."""

from aws_cdk import Duration, Stack
from aws_cdk import aws_sam as sam
from aws_cdk import aws_sqs as sqs
from constructs import Construct


class Orders(Stack):
    """A queue, its DLQ, and the application behind them."""

    def __init__(self, scope: Construct, name: str, application_arn: str) -> None:
        super().__init__(scope, name)
        dead_letters = sqs.Queue(
            self,
            "OrdersDeadLetters",
            retention_period=Duration.days(14),
            visibility_timeout=Duration.seconds(180),
        )
        orders = sqs.Queue(
            self,
            "Orders",
            dead_letter_queue=sqs.DeadLetterQueue(queue=dead_letters, max_receive_count=5),
        )
        replay = sam.CfnApplication(
            self,
            "Replay",
            location=sam.CfnApplication.ApplicationLocationProperty(
                application_id=application_arn, semantic_version="0.1.0"
            ),
            parameters={
                "MainQueueURL": orders.queue_url,
                "DLQArn": dead_letters.queue_arn,
                "AlarmEmail": "team@example.com",
            },
        )
        self.parked_queue_arn = replay.get_att("Outputs.ParkedQueueArn")
