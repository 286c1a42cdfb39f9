"""Just enough CloudFormation to see, without AWS, which stack a template makes of parameters."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import yaml

NO_VALUE = object()

PSEUDO_PARAMETERS: Mapping[str, Any] = {
    "AWS::AccountId": "123456789012",
    "AWS::NoValue": NO_VALUE,
    "AWS::Partition": "aws",
    "AWS::Region": "us-east-1",
    "AWS::StackName": "dead-letters",
    "AWS::StackId": "arn:aws:cloudformation:eu-west-1:123456789012:stack/stack/1",
    "AWS::URLSuffix": "amazonaws.com",
}


_ARN = "arn:aws:{}:us-east-1:123456789012:{}"

_REFS: Mapping[str, str] = {
    "AWS::SNS::Topic": _ARN.format("sns", "{}"),
    "AWS::SQS::Queue": "https://sqs.us-east-1.amazonaws.com/123456789012/{}",
}
"""The values of a Ref where it is not the name."""

_ATTRIBUTES: Mapping[tuple[str, str], str] = {
    ("AWS::DynamoDB::Table", "Arn"): _ARN.format("dynamodb", "table/{}"),
    ("AWS::Events::Rule", "Arn"): _ARN.format("events", "rule/{}"),
    ("AWS::S3::Bucket", "Arn"): "arn:aws:s3:::{}",
    ("AWS::SQS::Queue", "Arn"): _ARN.format("sqs", "{}"),
    ("AWS::SQS::Queue", "QueueName"): "{}",
}
"""The values of a GetAtt where more than its own name matters to a test."""


class _TemplateLoader(yaml.CSafeLoader):
    pass


def _long_form(loader: yaml.CSafeLoader, tag: str, node: yaml.Node) -> dict[str, Any]:
    if isinstance(node, yaml.ScalarNode):
        value: Any = loader.construct_scalar(node)
    elif isinstance(node, yaml.SequenceNode):
        value = loader.construct_sequence(node, deep=True)
    else:
        raise TypeError(f"!{tag} of a mapping is not a short form that this loader knows")
    if tag == "GetAtt":
        value = value.split(".", 1)
    return {tag if tag in {"Ref", "Condition"} else f"Fn::{tag}": value}


_TemplateLoader.add_multi_constructor("!", _long_form)


def load_template(path: Path) -> dict[str, Any]:
    """Read a template, with the short forms of its functions in full."""
    template = yaml.load(path.read_text(encoding="utf-8"), Loader=_TemplateLoader)  # noqa: S506
    assert isinstance(template, dict)
    return template


@dataclass(frozen=True)
class Stack:
    """The stack of a template and parameters: resources and outputs with their functions resolved.

    Raises ValueError where CloudFormation would refuse: a value out of bounds, or a reference to
    a resource whose condition does not hold.
    """

    template: Mapping[str, Any]
    parameters: Mapping[str, str]
    pseudo_parameters: Mapping[str, Any] = field(default_factory=lambda: PSEUDO_PARAMETERS)

    @classmethod
    def of(cls, template: Mapping[str, Any], given: Mapping[str, str] | None = None) -> Self:
        rules = template["Parameters"]
        defaults = {n: str(rule["Default"]) for n, rule in rules.items() if "Default" in rule}
        parameters = {**defaults, **(given or {})}
        for name, value in parameters.items():
            _require_within_bounds(name, value, rules[name])
        return cls(template, parameters)

    @property
    def resources(self) -> dict[str, dict[str, Any]]:
        present = self._present("Resources")
        of_all = self.resolve(self.template.get("Globals", {}).get("Function", {}))
        for resource in present.values():
            if resource["Type"] == "AWS::Serverless::Function":
                resource["Properties"] = of_all | resource["Properties"]
        return present

    @property
    def outputs(self) -> dict[str, dict[str, Any]]:
        return self._present("Outputs")

    @property
    def broken_rules(self) -> list[str]:
        broken = []
        for name, rule in self.template.get("Rules", {}).items():
            is_in_force = self.resolve(rule.get("RuleCondition", True))
            asserted = [self.resolve(assertion["Assert"]) for assertion in rule["Assertions"]]
            if is_in_force and not all(asserted):
                broken.append(name)
        return broken

    def of_type(self, resource_type: str) -> dict[str, dict[str, Any]]:
        properties = {}
        for name, resource in self.resources.items():
            if resource["Type"] == resource_type:
                properties[name] = resource["Properties"]
        return properties

    def resolve(self, node: Any) -> Any:
        if isinstance(node, list):
            values = map(self.resolve, node)
            return [value for value in values if value is not NO_VALUE]
        if not isinstance(node, dict):
            return node
        if len(node) == 1 and next(iter(node)) in _FUNCTIONS:
            [(name, argument)] = node.items()
            return _FUNCTIONS[name](self, argument)
        resolved = {key: self.resolve(value) for key, value in node.items()}
        return {key: value for key, value in resolved.items() if value is not NO_VALUE}

    def _present(self, section: str) -> dict[str, dict[str, Any]]:
        entries = self.template[section].items()
        return {name: self.resolve(entry) for name, entry in entries if self._is_created(entry)}

    def _is_created(self, entry: Mapping[str, Any]) -> bool:
        return "Condition" not in entry or self._holds(entry["Condition"])

    def _holds(self, condition: str) -> bool:
        return bool(self.resolve(self.template["Conditions"][condition]))

    def _ref(self, name: str) -> Any:
        if name in self.parameters:
            value = self.parameters[name]
            is_list = self.template["Parameters"][name]["Type"] == "CommaDelimitedList"
            return value.split(",") if is_list else value
        if name in self.pseudo_parameters:
            return self.pseudo_parameters[name]
        if name not in self.template["Resources"]:
            # SAM makes it of a function: an event source, a version or another. cfn-lint knows it.
            self._require_created(max(filter(name.startswith, self.template["Resources"]), key=len))
            return name
        kind = self._require_created(name)["Type"]
        return _REFS.get(kind, "{}").format(self._physical_name(name))

    def _get_att(self, path: list[str]) -> str:
        name, attribute = path
        kind = self._require_created(name)["Type"]
        value = _ATTRIBUTES.get((kind, attribute))
        return value.format(self._physical_name(name)) if value else f"{name}.{attribute}"

    def _physical_name(self, logical_id: str) -> str:
        resource = self.template["Resources"][logical_id]
        if resource["Type"] == "AWS::S3::Bucket":
            return logical_id.lower()
        is_fifo = self.resolve(resource["Properties"].get("FifoQueue")) is True
        return f"{logical_id}.fifo" if is_fifo else logical_id

    def _require_created(self, logical_id: str) -> Mapping[str, Any]:
        resource: Mapping[str, Any] = self.template["Resources"][logical_id]
        if not self._is_created(resource):
            raise ValueError(f"{logical_id} is referred to and not created")
        return resource

    def _if(self, branches: list[Any]) -> Any:
        condition, then, otherwise = branches
        return self.resolve(then if self._holds(condition) else otherwise)

    def _sub(self, argument: str | list[Any]) -> str:
        text, own = (argument, {}) if isinstance(argument, str) else argument
        names = self.resolve(own)

        def value_of(match: re.Match[str]) -> str:
            name = match[1]
            return str(names[name]) if name in names else self._named(name)

        return re.sub(r"\$\{([^}]+)}", value_of, text)

    def _named(self, name: str) -> str:
        return self._get_att(name.split(".")) if "." in name else str(self._ref(name))

    def _find_in_map(self, path: list[Any]) -> Any:
        name, key, value = self.resolve(path)
        return self.template["Mappings"][name][key][value]


_FUNCTIONS: Mapping[str, Callable[[Stack, Any], Any]] = {
    "Condition": Stack._holds,  # noqa: SLF001
    "Ref": Stack._ref,  # noqa: SLF001 - the table belongs to the class
    "Fn::And": lambda stack, parts: all(stack.resolve(parts)),
    "Fn::EachMemberEquals": lambda stack, pair: (
        {*stack.resolve(pair[0])} <= {stack.resolve(pair[1])}
    ),
    "Fn::Equals": lambda stack, pair: stack.resolve(pair[0]) == stack.resolve(pair[1]),
    "Fn::FindInMap": Stack._find_in_map,  # noqa: SLF001
    "Fn::GetAtt": Stack._get_att,  # noqa: SLF001
    "Fn::If": Stack._if,  # noqa: SLF001
    "Fn::Join": lambda stack, parts: parts[0].join(stack.resolve(parts[1])),
    "Fn::Not": lambda stack, parts: not stack.resolve(parts[0]),
    "Fn::Or": lambda stack, parts: any(stack.resolve(parts)),
    "Fn::Select": lambda stack, pair: stack.resolve(pair[1])[int(pair[0])],
    "Fn::Split": lambda stack, pair: stack.resolve(pair[1]).split(pair[0]),
    "Fn::Sub": Stack._sub,  # noqa: SLF001
}


def _require_within_bounds(name: str, value: str, rule: Mapping[str, Any]) -> None:
    values = value.split(",") if rule["Type"] == "CommaDelimitedList" else [value]
    pattern = re.compile(rule.get("AllowedPattern", ".*"))
    within = (
        value in {str(allowed) for allowed in rule.get("AllowedValues", [value])}
        and all(pattern.fullmatch(value) for value in values)
        and ("MinValue" not in rule or float(value) >= rule["MinValue"])
        and ("MaxValue" not in rule or float(value) <= rule["MaxValue"])
    )
    if not within:
        raise ValueError(f"{name}={value}: {rule['ConstraintDescription']}")
