"""What CloudFormation gets: a SAM template as SAM's own translator expands it."""

import copy
import json
from collections.abc import Mapping
from typing import Any

ARTEFACT = "s3://artefacts/0123456789abcdef"
_PATHS = {"AWS::Serverless::Function": "CodeUri", "AWS::Serverless::LayerVersion": "ContentUri"}


def translate(
    template: Mapping[str, Any],
    given: Mapping[str, str] | None = None,
    artefacts: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Expand *template*, with *given* as its parameters' defaults.

    Local folders become addresses in S3 first, as ``sam package`` has it: *artefacts*, or one for
    all.

    Raises:
        InvalidDocumentException: SAM refuses it.
    """
    # Both packages take a second to import, and every test process reads this file.
    from samtranslator.parser.parser import Parser  # noqa: PLC0415 - as above
    from samtranslator.translator.translator import Translator  # noqa: PLC0415 - as above

    packaged: dict[str, Any] = copy.deepcopy(dict(template))
    for name, resource in packaged["Resources"].items():
        if path := _PATHS.get(resource["Type"]):
            resource["Properties"][path] = (artefacts or {}).get(name, ARTEFACT)
    for name, value in (given or {}).items():
        packaged["Parameters"][name]["Default"] = value
    rules = packaged["Parameters"].items()
    values = {name: rule["Default"] for name, rule in rules if "Default" in rule}
    # None: no role here gets a managed policy, so their ARNs are not needed.
    translated: dict[str, Any] = Translator(None, Parser()).translate(packaged, values)
    return translated


def faults_of(template: Mapping[str, Any]) -> list[str]:
    """Return what cfn-lint finds, errors and warnings; a SAM template it expands itself."""
    from cfnlint.api import lint  # noqa: PLC0415 - see ``translate``

    return [str(match) for match in lint(json.dumps(template), regions=["us-east-1"])]
