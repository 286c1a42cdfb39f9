"""docs/fleet.md: a fleet and its queues from the CDK, and a mapping for each hot queue."""

from collections.abc import Iterable

from aws_cdk import Duration, Stack, Tags
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sam as sam
from aws_cdk import aws_sqs as sqs
from constructs import Construct

TAG = "dlq-fleet"


class Fleet(Stack):
    """The application out of the Serverless Application Repository, and queues with its tag."""

    def __init__(
        self,
        scope: Construct,
        name: str,
        application_arn: str,
        queues: Iterable[str],
        hot_queues: Iterable[str] = (),
    ) -> None:
        super().__init__(scope, name)
        replay = sam.CfnApplication(
            self,
            "Replay",
            location=sam.CfnApplication.ApplicationLocationProperty(
                application_id=application_arn, semantic_version="0.1.0"
            ),
            parameters={"QueueTag": TAG, "Sweep": "true", "AlarmEmail": "team@example.com"},
        )
        parked = sqs.Queue.from_queue_arn(
            self, "Parked", replay.get_att("Outputs.ParkedQueueArn").to_string()
        )

        dead_letters: dict[str, sqs.Queue] = {}
        for queue in queues:
            dead_letters[queue] = sqs.Queue(
                self,
                f"{queue}DeadLetters",
                retention_period=Duration.days(14),
                visibility_timeout=Duration.seconds(180),
                dead_letter_queue=sqs.DeadLetterQueue(queue=parked, max_receive_count=1000),
            )
            main = sqs.Queue(
                self,
                queue,
                visibility_timeout=Duration.seconds(180),
                dead_letter_queue=sqs.DeadLetterQueue(
                    queue=dead_letters[queue], max_receive_count=5
                ),
            )
            for member in (main, dead_letters[queue]):
                Tags.of(member).add("dlq-replay", TAG)

        for queue in hot_queues:
            lambda_.CfnEventSourceMapping(
                self,
                f"{queue}Mapping",
                function_name=replay.get_att("Outputs.ReplayFunctionArn").to_string(),
                event_source_arn=dead_letters[queue].queue_arn,
                batch_size=100,
                maximum_batching_window_in_seconds=1,
                function_response_types=["ReportBatchItemFailures"],
                scaling_config=lambda_.CfnEventSourceMapping.ScalingConfigProperty(
                    maximum_concurrency=2
                ),
            )
