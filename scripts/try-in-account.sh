#!/usr/bin/env bash
# Tries in an AWS account what no test can show without one; docs/real-account.md says what to expect.
# Each check makes what it needs. All names begin with dlq-try-, and clean-up removes what has such a name.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
    cat <<'END'
usage: AWS_REGION=REGION scripts/try-in-account.sh [--yes] CHECK

Runs one check of docs/real-account.md in the account of your credentials, and prints each command.
It costs money, so it asks first. --yes does not ask.

  deploy             stacks with new, with FIFO and with your own queues pass a test message
  failed-deployment  a first deployment that fails leaves no queue and no bucket
  replay             a dead letter comes back to its own queue, also from a shared DLQ
  fleet              queues with the tag are swept, others are left alone
  recursion          Lambda's recursion detection does not stop a message after 16 replays
  queues             SQS counts, dates and deduplicates messages as the tests' model does
  long-wait          a FIFO message can wait for longer than a visibility timeout
  kms                queues with keys of yours pass a test message; missing rights are found
  vpc                a VPC, a key for the data, a boundary and a role path work together
  spark-job          AWS Glue reaches SQS, refuses a second run, and takes new code
  alarms             alarms ring on missing metrics; notices arrive by mail
  pipe               an EventBridge pipe feeds the function
  deletion           a deleted stack keeps its messages, although its policy is in use
  clean-up           remove all that the checks made in this Region
END
}

refuse() {
    echo "try-in-account.sh: $1" >&2
    exit 2
}

# --- Each command is printed before it runs.

print_command() {
    { printf '+'; printf ' %q' "$@"; printf '\n'; } >&2
}
aws() { print_command aws "$@"; command aws "$@"; }
sam() { print_command sam "$@"; command sam "$@"; }
make() { print_command make "$@"; command make "$@"; }
dlq() { print_command dlq "$@"; PYTHONPATH=layers/core .venv/bin/python -m dlq "$@"; }
wait_minutes() {
    echo "Waiting for $1 minutes: $2" >&2
    sleep $(($1 * 60))
}

# --- Stacks

deploy() {
    local name=$1
    shift
    sam deploy --stack-name "$name" --region "$AWS_REGION" --resolve-s3 --capabilities CAPABILITY_IAM \
        --no-confirm-changeset --no-fail-on-empty-changeset --parameter-overrides "$@"
}
# Several checks use it, so its parameters are always the same: an update keeps what is not given.
deploy_standard() { deploy dlq-try-standard MaxAttempts=2 BackoffRate=1 CreateSparkJob=true; }
output() {
    aws cloudformation describe-stacks --stack-name "$1" \
        --query "Stacks[0].Outputs[?OutputKey=='$2'].OutputValue" --output text
}
resource() {
    aws cloudformation describe-stack-resource --stack-name "$1" --logical-resource-id "$2" \
        --query StackResourceDetail.PhysicalResourceId --output text
}
# A test message that fails is a result of the check, and the next commands still run.
test_message() { dlq doctor --stack "$1" --send-test-message || echo "The test of $1 ended with exit code $?."; }
# CloudFormation keeps the layer, whose name does not begin with dlq-try-. It goes first, while an
# output still names it. sam delete never deletes it.
remove_stack() {
    local layer
    layer=$(output "$1" CoreLayerArn)
    if [[ $layer == arn:* ]]; then
        aws lambda delete-layer-version --layer-name "${layer%:*}" --version-number "${layer##*:}"
    fi
    sam delete --stack-name "$1" --region "$AWS_REGION" --no-prompts
}

# --- Queues

create_queue() {
    local attributes=()
    if [[ $1 == *.fifo ]]; then attributes=(--attributes FifoQueue=true); fi
    aws sqs create-queue --queue-name "$1" ${attributes[@]+"${attributes[@]}"} --query QueueUrl --output text
}
arn() {
    aws sqs get-queue-attributes --queue-url "$1" --attribute-names QueueArn \
        --query Attributes.QueueArn --output text
}
# dead_letters_go URL DLQ_URL: after 5 receives.
dead_letters_go() {
    local target
    target=$(arn "$2")
    aws sqs set-queue-attributes --queue-url "$1" --attributes \
        "{\"RedrivePolicy\": \"{\\\"deadLetterTargetArn\\\": \\\"$target\\\", \\\"maxReceiveCount\\\": 5}\"}"
}
receive() {
    aws sqs receive-message --queue-url "$1" --wait-time-seconds 3 \
        --message-attribute-names All --message-system-attribute-names All
}
# Receives without a delete, until the messages are dead letters.
fail() {
    aws sqs set-queue-attributes --queue-url "$1" --attributes VisibilityTimeout=1
    local i
    for i in 1 2 3 4 5 6; do
        echo "Receive $i" >&2
        receive "$1"
        sleep 2
    done
}

# --- Keys, roles, runs

key() {
    local arn
    if ! arn=$(aws kms describe-key --key-id "alias/$1" --query KeyMetadata.Arn --output text); then
        arn=$(aws kms create-key --description "$1" --query KeyMetadata.Arn --output text)
        aws kms create-alias --alias-name "alias/$1" --target-key-id "$arn"
    fi
    echo "$arn"
}
create_lambda_role() {
    aws iam create-role --role-name "$1" --query Role.Arn --output text --assume-role-policy-document \
        '{"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": "lambda.amazonaws.com"}}}'
}
wait_for_run() {
    local state=STARTING
    while [[ $state =~ ^(STARTING|RUNNING|STOPPING|WAITING)$ ]]; do
        sleep 20
        state=$(aws glue get-job-run --job-name "$1" --run-id "$2" --query JobRun.JobRunState --output text)
    done
    aws glue get-job-run --job-name "$1" --run-id "$2" \
        --query 'JobRun.[JobRunState,ErrorMessage,ExecutionTime]'
}
needs() {
    local name
    for name in "$@"; do
        if [[ -z ${!name:-} ]]; then refuse "set $name first: docs/real-account.md says to what"; fi
    done
}

# --- The checks

check_deploy() {
    local main dlq dlq_arn one
    make build
    deploy_standard
    deploy dlq-try-fifo QueueType=fifo MaxAttempts=2 BackoffRate=1
    main=$(create_queue dlq-try-own-main)
    dlq=$(create_queue dlq-try-own-dlq)
    dead_letters_go "$main" "$dlq"
    dlq_arn=$(arn "$dlq")
    deploy dlq-try-own MainQueueURL="$main" DLQArn="$dlq_arn"
    for one in dlq-try-standard dlq-try-fifo dlq-try-own; do test_message "$one"; done
}

check_failed_deployment() {
    make build
    # The template takes this schedule, and Glue refuses it when queues, bucket and code are there.
    if deploy dlq-try-fails CreateSparkJob=true SparkJobSchedule='"cron(99 5 * * ? *)"'; then
        echo "The deployment did not fail."
    fi
    aws s3api list-buckets --query "Buckets[?starts_with(Name, 'dlq-try-fails-')].Name"
    aws sqs list-queues --queue-name-prefix dlq-try-fails-
}

check_replay() {
    local main dlq log invoices invoices_arn
    make build
    invoices=$(create_queue dlq-try-invoices)
    invoices_arn=$(arn "$invoices")
    deploy dlq-try-shared MaxAttempts=2 BackoffRate=1 OtherMainQueueArns="$invoices_arn"
    main=$(output dlq-try-shared MainQueueUrl)
    dlq=$(output dlq-try-shared DeadLetterQueueUrl)
    log=$(output dlq-try-shared ReplayLogGroupName)
    dead_letters_go "$invoices" "$dlq"
    sleep 60
    aws sqs send-message --queue-url "$main" --message-body '{"order": 1}'
    aws sqs send-message --queue-url "$invoices" --message-body '{"invoice": 1}'
    fail "$main"
    fail "$invoices"
    sleep 30
    receive "$main"
    receive "$invoices"
    aws logs tail "$log" --since 5m
    dlq doctor --stack dlq-try-shared || echo "doctor ended with exit code $?."
}

check_fleet() {
    local main dlq dlq_arn log function mapping
    make build
    main=$(create_queue dlq-try-fleet-main)
    dlq=$(create_queue dlq-try-fleet-dlq)
    dead_letters_go "$main" "$dlq"
    deploy dlq-try-fleet QueueTag=dlq-try-fleet Sweep=true MaxAttempts=2 BackoffRate=1
    log=$(output dlq-try-fleet ReplayLogGroupName)
    function=$(output dlq-try-fleet ReplayFunctionArn)
    aws sqs tag-queue --queue-url "$dlq" --tags dlq-replay=dlq-try-fleet
    aws sqs send-message --queue-url "$main" --message-body '{"order": 6}'
    fail "$main"
    wait_minutes 15 "the DLQ alone has the tag"
    receive "$main"
    aws sqs tag-queue --queue-url "$main" --tags dlq-replay=dlq-try-fleet
    wait_minutes 15 "both have it"
    receive "$main"
    aws logs tail "$log" --since 35m
    dlq doctor --all --stack dlq-try-fleet || echo "doctor ended with exit code $?."
    dlq_arn=$(arn "$dlq")
    mapping=$(aws lambda create-event-source-mapping --function-name "$function" \
        --event-source-arn "$dlq_arn" --function-response-types ReportBatchItemFailures \
        --scaling-config MaximumConcurrency=2 --query UUID --output text)
    aws lambda delete-event-source-mapping --uuid "$mapping"
}

check_recursion() {
    local main main_arn parked role
    make build
    deploy dlq-try-recursion MaxAttempts=30 BackoffRate=0.1 BackoffCapSeconds=5
    main=$(output dlq-try-recursion MainQueueUrl)
    main_arn=$(output dlq-try-recursion MainQueueArn)
    parked=$(output dlq-try-recursion ParkedQueueUrl)
    role=$(create_lambda_role dlq-try-recursion-consumer)
    aws iam attach-role-policy --role-name dlq-try-recursion-consumer \
        --policy-arn arn:aws:iam::aws:policy/service-role/AWSLambdaSQSQueueExecutionRole
    echo 'def handler(event, context): raise RuntimeError("always")' >"$scratch/fails.py"
    .venv/bin/python -m zipfile -c "$scratch/fails.zip" "$scratch/fails.py"
    wait_minutes 1 "a new role takes effect"
    aws lambda create-function --function-name dlq-try-recursion-consumer --runtime python3.13 --timeout 5 \
        --handler fails.handler --zip-file "fileb://$scratch/fails.zip" --role "$role"
    aws lambda wait function-active-v2 --function-name dlq-try-recursion-consumer
    aws sqs set-queue-attributes --queue-url "$main" --attributes VisibilityTimeout=6
    aws lambda create-event-source-mapping --function-name dlq-try-recursion-consumer --batch-size 1 \
        --event-source-arn "$main_arn"
    aws sqs send-message --queue-url "$main" --message-body '{"order": 2}'
    wait_minutes 30 "30 replays, each after 5 failed receives"
    receive "$parked"
    aws cloudwatch list-metrics --namespace AWS/Lambda --metric-name RecursiveInvocationsDropped
}

check_queues() {
    local main dlq parked fifo fifo_dlq handle i
    main=$(create_queue dlq-try-count-main)
    dlq=$(create_queue dlq-try-count-dlq)
    parked=$(create_queue dlq-try-count-parked)
    fifo=$(create_queue dlq-try-count-main.fifo)
    fifo_dlq=$(create_queue dlq-try-count-dlq.fifo)
    dead_letters_go "$main" "$dlq"
    dead_letters_go "$dlq" "$parked"
    dead_letters_go "$fifo" "$fifo_dlq"
    sleep 60
    echo "Sends: $(date +%s)"
    aws sqs send-message --queue-url "$main" --message-body counted
    aws sqs send-message --queue-url "$fifo" --message-body counted --message-group-id counted \
        --message-deduplication-id counted
    sleep 60
    fail "$main"
    fail "$fifo"
    echo "All are moved: $(date +%s)"
    echo "In the DLQ, in the DLQ's DLQ, in the FIFO DLQ:"
    receive "$dlq"
    receive "$parked"
    receive "$fifo_dlq"
    for i in 1 2; do
        aws sqs send-message --queue-url "$fifo" --message-body again --message-group-id again \
            --message-deduplication-id again
        handle=$(aws sqs receive-message --queue-url "$fifo" --wait-time-seconds 5 \
            --query 'Messages[0].ReceiptHandle' --output text)
        if [[ $handle == None ]]; then
            echo "Send $i: no message"
        else
            echo "Send $i: a message"
            aws sqs delete-message --queue-url "$fifo" --receipt-handle "$handle"
        fi
    done
    sleep 300
    echo "By minute, deletes that CloudWatch counts in the main queue, then visible messages:"
    by_minute NumberOfMessagesDeleted Sum
    by_minute ApproximateNumberOfMessagesVisible Maximum
}

by_minute() {
    aws cloudwatch get-metric-statistics --namespace AWS/SQS \
        --metric-name "$1" --statistics "$2" --period 60 \
        --dimensions Name=QueueName,Value=dlq-try-count-main \
        --start-time "$(($(date +%s) - 3600))" --end-time "$(date +%s)" \
        --query "Datapoints[].$2" --output text
}

check_long_wait() {
    local dlq log i
    make build
    deploy dlq-try-wait QueueType=fifo MaxAttempts=30 BackoffRate=9999 BackoffCapSeconds=999999
    dlq=$(output dlq-try-wait DeadLetterQueueUrl)
    log=$(output dlq-try-wait ReplayLogGroupName)
    # Replayed 8 times already: the wait is drawn between 0 and 999,999 s, and is rarely below 11 hours.
    for i in 1 2 3; do
        aws sqs send-message --queue-url "$dlq" --message-body "long wait $i" --message-group-id "$i" \
            --message-deduplication-id "$(date +%s)-$i" --message-attributes \
            '{"sqs-dlq-replay-nb": {"DataType": "Number", "StringValue": "8"}}'
    done
    sleep 60
    aws logs tail "$log" --since 5m
    echo "Tomorrow: aws logs tail $log --since 24h --region $AWS_REGION"
}

check_kms() {
    local key_1 key_2 main dlq dlq_arn
    make build
    key_1=$(key dlq-try-1)
    key_2=$(key dlq-try-2)
    deploy dlq-try-kms QueueKmsKeyArns="$key_1,$key_2"
    main=$(create_queue dlq-try-keyed-main)
    dlq=$(create_queue dlq-try-keyed-dlq)
    dead_letters_go "$main" "$dlq"
    dlq_arn=$(arn "$dlq")
    deploy dlq-try-nokey MainQueueURL="$main" DLQArn="$dlq_arn"
    aws sqs set-queue-attributes --queue-url "$main" --attributes "KmsMasterKeyId=$key_1"
    aws sqs set-queue-attributes --queue-url "$dlq" --attributes "KmsMasterKeyId=$key_2"
    test_message dlq-try-kms
    test_message dlq-try-nokey
}

check_vpc() {
    local job function run
    needs SUBNET SECURITY_GROUP DATA_KEY BOUNDARY
    make build
    deploy dlq-try-vpc CreateSparkJob=true SubnetIds="$SUBNET" SecurityGroupIds="$SECURITY_GROUP" \
        DataKmsKeyArn="$DATA_KEY" PermissionsBoundaryArn="$BOUNDARY" RolePath=/dlq-try/
    test_message dlq-try-vpc
    job=$(output dlq-try-vpc SparkJobName)
    function=$(resource dlq-try-vpc ReminderFunction)
    run=$(aws glue start-job-run --job-name "$job" --query JobRunId --output text)
    wait_for_run "$job" "$run"
    aws lambda invoke --function-name "$function" --payload e30= /dev/null
    wait_minutes 10 "Glue deletes the network interfaces of the run"
    aws ec2 describe-network-interfaces --query 'NetworkInterfaces[].[NetworkInterfaceId,Status]' \
        --filters Name=subnet-id,Values="$SUBNET" Name=tag-key,Values=aws-glue-service-resource
}

check_spark_job() {
    local parked job archive archive_bucket run
    make build
    deploy_standard
    parked=$(output dlq-try-standard ParkedQueueUrl)
    job=$(output dlq-try-standard SparkJobName)
    archive=$(output dlq-try-standard ArchiveUri)
    archive_bucket=$(resource dlq-try-standard ArchiveBucket)
    aws sqs send-message --queue-url "$parked" --message-body '{"order": 3}'
    run=$(aws glue start-job-run --job-name "$job" --query JobRunId --output text)
    if aws glue start-job-run --job-name "$job"; then echo "The second start was not refused."; fi
    wait_for_run "$job" "$run"
    aws s3 ls --recursive "$archive/"
    receive "$parked"
    aws logs tail /aws-glue/jobs/dlq-try-standard/output --since 30m

    cp dlq/aws/actor.py "$scratch/actor.py"
    echo '# another version' >>dlq/aws/actor.py
    make build
    deploy_standard
    aws s3 ls --recursive "s3://$archive_bucket/code/"
    aws glue get-job --job-name "$job" --query Job.Command.ScriptLocation
}

check_alarms() {
    local dlq parked function reminder topic job run waiting alarm i
    needs EMAIL
    make build
    deploy dlq-try-alarms MaxAttempts=2 BackoffRate=1 CreateSparkJob=true AlarmEmail="$EMAIL"
    dlq=$(output dlq-try-alarms DeadLetterQueueUrl)
    parked=$(output dlq-try-alarms ParkedQueueUrl)
    function=$(output dlq-try-alarms ReplayFunctionArn)
    reminder=$(resource dlq-try-alarms ReminderFunction)
    topic=$(output dlq-try-alarms AlarmTopicArn)
    job=$(output dlq-try-alarms SparkJobName)
    waiting=1
    until [[ $waiting == 0 ]]; do
        echo "Confirm the subscription: the mail is in the mailbox of $EMAIL." >&2
        sleep 20
        waiting=$(aws sns list-subscriptions-by-topic --topic-arn "$topic" \
            --query "length(Subscriptions[?SubscriptionArn=='PendingConfirmation'])" --output text)
    done
    dlq pause --stack dlq-try-alarms
    aws sqs send-message --queue-url "$dlq" --message-body '{"order": 4}'
    for ((i = 1; i <= 20; i++)); do
        aws sqs send-message --queue-url "$parked" --message-body "{\"order\": 5, \"line\": $i}"
    done
    aws lambda invoke --function-name "$function" --payload e30= /dev/null
    run=$(aws glue start-job-run --job-name "$job" --arguments '{"--command-line": "run"}' \
        --query JobRunId --output text)
    wait_for_run "$job" "$run"
    wait_minutes 45 "NothingReplayedAlarm needs 30"
    print_values dlq-try-alarms NearestExpiryAlarm
    dlq resume --stack dlq-try-alarms
    print_states dlq-try-alarms
    run=$(aws glue start-job-run --job-name "$job" --query JobRunId --output text)
    wait_for_run "$job" "$run"
    aws lambda invoke --function-name "$reminder" --payload e30= /dev/null
    wait_minutes 10 "PendingAlarm"
    print_states dlq-try-alarms
    print_values dlq-try-alarms NearestExpiryAlarm
    for alarm in ReplayErrorsAlarm ArrivedAlarm; do
        aws cloudwatch set-alarm-state --alarm-name "$(resource dlq-try-alarms "$alarm")" \
            --state-value ALARM --state-reason "a test, do nothing"
    done
}
# With the history: an alarm may have rung and ended meanwhile.
print_states() {
    aws cloudwatch describe-alarms --alarm-name-prefix "$1-" --query 'MetricAlarms[].[AlarmName,StateValue]'
    aws cloudwatch describe-alarm-history --history-item-type StateUpdate --max-items 100 \
        --query "AlarmHistoryItems[?starts_with(AlarmName, '$1-')].[Timestamp,AlarmName,HistorySummary]"
}

# print_values STACK ALARM: of the alarm's expression and of each metric in it, in the last two hours.
print_values() {
    local name queries
    name=$(resource "$1" "$2")
    queries=$(aws cloudwatch describe-alarms --alarm-names "$name" --query 'MetricAlarms[0].Metrics')
    aws cloudwatch get-metric-data --metric-data-queries "${queries//\"ReturnData\": false/\"ReturnData\": true}" \
        --start-time "$(($(date +%s) - 7200))" --end-time "$(date +%s)" \
        --query 'MetricDataResults[].[Id,Timestamps,Values]'
}

check_pipe() {
    local function dlq_arn
    make build
    deploy dlq-try-piped MaxAttempts=2 BackoffRate=1 ReplayEnabled=false
    function=$(output dlq-try-piped ReplayFunctionArn)
    dlq_arn=$(output dlq-try-piped DeadLetterQueueArn)
    aws cloudformation deploy --stack-name dlq-try-pipe --template-file templates/pipe-trigger.yaml \
        --capabilities CAPABILITY_IAM --no-fail-on-empty-changeset \
        --parameter-overrides ReplayFunctionArn="$function" DLQArn="$dlq_arn"
    dlq pause --stack dlq-try-piped
    dlq resume --stack dlq-try-piped
    test_message dlq-try-piped
}

check_deletion() {
    local parked policy
    make build
    deploy dlq-try-deletion MaxAttempts=2 BackoffRate=1
    parked=$(output dlq-try-deletion ParkedQueueUrl)
    policy=$(output dlq-try-deletion RecordFailuresPolicyArn)
    create_lambda_role dlq-try-deletion-consumer
    aws iam attach-role-policy --role-name dlq-try-deletion-consumer --policy-arn "$policy"
    aws sqs send-message --queue-url "$parked" --message-body keep-me
    remove_stack dlq-try-deletion
    receive "$parked"
}

# --- What the checks made. It can run again if it stops halfway: it lists what is still there.

# An assignment, unlike a list in a for loop, ends the script if the call fails.
check_clean_up() {
    local found one more id
    found=$(aws lambda list-functions --output text \
        --query "Functions[?starts_with(FunctionName, 'dlq-try-') && ends_with(FunctionName, '-consumer')].FunctionName")
    for one in $(names "$found"); do
        more=$(aws lambda list-event-source-mappings --function-name "$one" --output text \
            --query 'EventSourceMappings[].UUID')
        for id in $(names "$more"); do aws lambda delete-event-source-mapping --uuid "$id"; done
        aws lambda delete-function --function-name "$one"
    done
    found=$(aws cloudformation describe-stacks --output text \
        --query "Stacks[?starts_with(StackName, 'dlq-try-')].StackName")
    for one in $(names "$found"); do remove_stack "$one"; done
    found=$(aws iam list-roles --output text \
        --query "Roles[?starts_with(RoleName, 'dlq-try-') && ends_with(RoleName, '-consumer')].RoleName")
    for one in $(names "$found"); do
        more=$(aws iam list-attached-role-policies --role-name "$one" --output text \
            --query 'AttachedPolicies[].PolicyArn')
        for id in $(names "$more"); do aws iam detach-role-policy --role-name "$one" --policy-arn "$id"; done
        aws iam delete-role --role-name "$one"
    done
    found=$(aws iam list-policies --scope Local --output text \
        --query "Policies[?starts_with(PolicyName, 'dlq-try-')].Arn")
    for one in $(names "$found"); do aws iam delete-policy --policy-arn "$one"; done
    found=$(aws sqs list-queues --queue-name-prefix dlq-try- --output text --query 'QueueUrls[]')
    for one in $(names "$found"); do aws sqs delete-queue --queue-url "$one"; done
    found=$(aws s3api list-buckets --output text --query "Buckets[?starts_with(Name, 'dlq-try-')].Name")
    for one in $(names "$found"); do
        print_command empty "s3://$one"
        .venv/bin/python -c \
            'import sys, boto3; boto3.resource("s3", sys.argv[2]).Bucket(sys.argv[1]).object_versions.delete()' \
            "$one" "$AWS_REGION"
        aws s3api delete-bucket --bucket "$one"
    done
    found=$(aws logs describe-log-groups --log-group-name-prefix /aws/lambda/dlq-try- --output text \
        --query 'logGroups[].logGroupName')
    for one in $(names "$found"); do aws logs delete-log-group --log-group-name "$one"; done
    found=$(aws kms list-aliases --output text \
        --query "Aliases[?starts_with(AliasName, 'alias/dlq-try-')].AliasName")
    for one in $(names "$found"); do
        # Scheduled already, if a run before stopped between these two.
        more=$(aws kms describe-key --key-id "$one" --query KeyMetadata.KeyState --output text)
        if [[ $more != PendingDeletion ]]; then
            id=$(aws kms describe-key --key-id "$one" --query KeyMetadata.KeyId --output text)
            aws kms schedule-key-deletion --key-id "$id" --pending-window-in-days 7
        fi
        aws kms delete-alias --alias-name "$one"
    done
}
# The AWS CLI prints None for no list.
names() { if [[ $1 != None ]]; then echo "$1"; fi; }

# --- The command line

yes=false
check=
for word in "$@"; do
    case $word in
    -h | --help)
        usage
        exit 0
        ;;
    --yes) yes=true ;;
    -*) refuse "$word: there is no such option; --help lists all" ;;
    *)
        if [[ -n $check ]]; then refuse "one check at a time"; fi
        check=$word
        ;;
    esac
done
if [[ -z $check ]]; then
    usage >&2
    exit 2
fi
if ! declare -F "check_${check//-/_}" >/dev/null; then
    refuse "$check: there is no such check; --help lists all"
fi
if [[ -z ${AWS_REGION:-} ]]; then refuse "set AWS_REGION to the Region of the test"; fi
if [[ ! -x .venv/bin/python ]]; then refuse "run make setup-test first"; fi
if [[ $(command aws --version) != aws-cli/2.* ]]; then refuse "the AWS CLI 2 is needed"; fi

export AWS_DEFAULT_OUTPUT=json AWS_PAGER=
PATH=$PATH:$PWD/.tools/sam/bin

account=$(aws sts get-caller-identity --query Account --output text)
if ! $yes; then
    if [[ ! -t 0 ]]; then refuse "it costs money: add --yes where there is nobody to ask"; fi
    read -r -p "$check, in account $account, Region $AWS_REGION. It costs money. Type dlq-try to start: " word
    if [[ $word != dlq-try ]]; then refuse "nothing was done"; fi
fi

scratch=$(mktemp -d)
end() {
    local code=$?
    if [[ -e $scratch/actor.py ]]; then cp "$scratch/actor.py" dlq/aws/actor.py; fi
    rm -rf "$scratch"
    if ((code != 0)); then echo "try-in-account.sh: $check stopped with exit code $code" >&2; fi
    if [[ $check != clean-up ]]; then echo "What $check made is still there. clean-up removes it." >&2; fi
}
trap end EXIT

"check_${check//-/_}"
