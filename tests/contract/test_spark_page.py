"""docs/schedule.md, "Other Spark": its commands start the job that `make spark-package` packs."""

import json
import re
import shlex
from typing import Any

from botocore.session import Session
from botocore.validate import ParamValidator

from spark_reprocess.command_line.cli import parse
from tests.contract.template import ROOT

PAGE = (ROOT / "docs" / "schedule.md").read_text("utf-8")
SECTION = PAGE.split("\n## Other Spark\n")[1].split("\n## ")[0]
COMMANDS = [
    shlex.split(line)
    for block in re.findall(r"^```sh\n(.*?)^```", SECTION, re.DOTALL | re.MULTILINE)
    for line in re.findall(r"(?:'[^']*'|[^'\n])+", block.replace("\\\n", " "))
]


def command(*words: str) -> list[str]:
    [found] = [one for one in COMMANDS if one[: len(words)] == list(words)]
    return found[len(words) :]


def test_spark_submit_starts_a_run() -> None:
    _, files, script, *arguments = command("spark-submit")

    assert (files, script) == ("dist/spark_reprocess.zip", "dist/spark_job.py")
    assert parse(arguments).name == "run"


def test_emr_serverless_takes_the_example_and_starts_the_same_run() -> None:
    words = command("aws", "emr-serverless", "start-job-run")
    given: dict[str, Any] = {
        re.sub(r"-(\w)", lambda found: found[1].upper(), name.removeprefix("--")): text
        for name, text in zip(words[::2], words[1::2], strict=True)
    }
    given["jobDriver"] = json.loads(given["jobDriver"])
    model = Session().get_service_model("emr-serverless").operation_model("StartJobRun")
    assert model.input_shape is not None
    submit = given["jobDriver"]["sparkSubmit"]

    report = ParamValidator().validate(given | {"clientToken": "token"}, model.input_shape)
    assert not report.generate_report()
    assert parse(submit["entryPointArguments"]).name == "run"
    assert submit["entryPoint"] == "s3://BUCKET/emr/spark_job.py"
    assert "--py-files s3://BUCKET/emr/spark_reprocess.zip " in submit["sparkSubmitParameters"]
