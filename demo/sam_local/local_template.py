"""The built template, made to reach a server on this machine. Pure but for two files.

``sam local invoke`` hands a container only variables that the template declares, and a template
that is deployed must not declare an endpoint. So a copy beside the built one does.
"""

from pathlib import Path

import yaml

from demo.errors import DemoError

FUNCTION = "ReplayFunction"


def write_local_template(build: Path) -> Path:
    """Write ``local.yaml`` beside the built template and return its path.

    Raises:
        DemoError: nothing is built, or not this function.
    """
    source = build / "template.yaml"
    if not source.is_file():
        raise DemoError(f"{source} is missing; run make build first.")
    # What sam build writes is plain YAML: CloudFormation's tags are spelled out.
    template = yaml.safe_load(source.read_text(encoding="utf-8"))
    try:
        variables = template["Resources"][FUNCTION]["Properties"]["Environment"]["Variables"]
    except (KeyError, TypeError) as error:
        raise DemoError(f"{source} has no {FUNCTION} with variables; run make build.") from error
    variables["AWS_ENDPOINT_URL"] = ""
    target = build / "local.yaml"
    target.write_text(yaml.safe_dump(template, sort_keys=False), encoding="utf-8")
    return target
