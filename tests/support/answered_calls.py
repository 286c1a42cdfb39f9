"""Sessions of boto3 of which some calls are answered by a test, and never leave the process."""

import io
import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any
from urllib.parse import parse_qs

import boto3
from botocore.awsrequest import AWSPreparedRequest, AWSResponse

from tests.contract.permissions import Call, is_allowed

Answer = Callable[[str], tuple[Any, ...]]
"""A content type and a text for a request's body, and an HTTP status if it is not 200."""


def session_answering(answers: Mapping[str, Answer], **options: Any) -> boto3.session.Session:
    """Make a session whose calls of some operations, ``service.Operation``, never leave it."""
    session = boto3.session.Session(**{"region_name": os.environ["AWS_REGION"], **options})

    def respond(answer: Answer, request: AWSPreparedRequest, **_: Any) -> AWSResponse:
        body = request.body or ""
        kind, text, *status = answer(body.decode() if isinstance(body, bytes) else str(body))
        raw = io.BytesIO(text.encode())
        raw.stream = lambda *_, **__: iter([raw.read()])  # type: ignore[attr-defined]
        return AWSResponse(request.url, (status or [200])[0], {"Content-Type": kind}, raw)  # type: ignore[arg-type]

    for operation, answer in answers.items():
        # What a handler of this event returns is the response; its type says None.
        handler: Any = partial(respond, answer)
        session.events.register(f"before-send.{operation}", handler)
    return session


def allowing_everything() -> dict[str, Answer]:
    """Return what moto lacks: IAM's simulator for a role that may do all, Lambda's loops."""
    everything = [{"Effect": "Allow", "Action": "*", "Resource": "*"}]
    loop = '{"RecursiveLoop": "Allow"}'
    return {
        "iam.SimulatePrincipalPolicy": simulating(everything),
        "lambda.GetFunctionRecursionConfig": lambda _: ("application/json", loop),
    }


def simulating(statements: list[dict[str, Any]]) -> Answer:
    """IAM's simulator over a role's statements."""

    def answer(body: str) -> tuple[str, str]:
        asked = {name: values[0] for name, values in parse_qs(body).items()}
        context: dict[str, str] = {}
        for name, key in asked.items():
            if name.endswith(".ContextKeyName"):
                context[key] = asked[name.replace("Name", "Values.member.1")]

        resource = asked["ResourceArns.member.1"]
        actions = [name for key, name in asked.items() if key.startswith("ActionNames.")]
        results = ""
        for action in actions:
            call = Call(action, resource, context)
            decision = "allowed" if is_allowed(call, statements) else "denied"
            results += (
                f"<member><EvalActionName>{action}</EvalActionName>"
                f"<EvalDecision>{decision}</EvalDecision></member>"
            )
        return "text/xml", (
            "<SimulatePrincipalPolicyResponse><SimulatePrincipalPolicyResult><EvaluationResults>"
            f"{results}</EvaluationResults></SimulatePrincipalPolicyResult>"
            "</SimulatePrincipalPolicyResponse>"
        )

    return answer
