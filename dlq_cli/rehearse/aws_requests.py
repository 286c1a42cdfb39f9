"""Finds which operation of which AWS service an HTTP request calls, with botocore's own models.

A request names its service in its signature, and its operation in a header, in a form field or by
method and path, depending on the protocol. No list of services is kept here.
"""

import base64
import gzip
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qsl, unquote, urlsplit

import botocore.session
from botocore.loaders import Loader, create_loader
from botocore.model import OperationModel, ServiceModel, Shape
from botocore.parsers import RpcV2CBORParser

_SCOPE = re.compile(r"Credential=[^/\s]*/\d{8}/(?P<rest>[^,\s]*)")
_METADATA_CHARACTERS = 4096
_AGENT = re.compile(r"\bapi/(?P<service>[a-z0-9-]+)")
_QUERY_PROTOCOLS = frozenset(("query", "ec2"))
_REST_PROTOCOLS = frozenset(("rest-json", "rest-xml"))
CBOR = "smithy-rpc-v2-cbor"

Parameters = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Request:
    """An HTTP request.

    Attributes:
        path: with the query.
        headers: by name in lower case.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @classmethod
    def from_line(cls, line: Mapping[str, Any]) -> Self:
        """Read what the sandbox passes on."""
        headers = {str(name).lower(): str(value) for name, value in line["headers"]}
        return cls(line["method"], line["path"], headers, base64.b64decode(line["body"]))

    @property
    def query(self) -> dict[str, str]:
        """The fields of the query; an empty text for a field without a value."""
        return dict(parse_qsl(urlsplit(self.path).query, keep_blank_values=True))

    @property
    def form(self) -> dict[str, str]:
        """The fields of a form in the body."""
        return dict(parse_qsl(self.body.decode("utf-8", "replace"), keep_blank_values=True))


@dataclass(frozen=True, slots=True)
class Call:
    """An operation that a request calls.

    Attributes:
        service: botocore's name of it, such as ``dynamodb``.
        protocol: in which the answer must be.
        parameters: as boto3 takes them, as far as they can be read: of XML bodies they cannot.
        region: of the signature; empty where it names none.
    """

    service: str
    operation: OperationModel
    protocol: str
    parameters: Parameters
    region: str = ""

    @property
    def name(self) -> str:
        """``service:Operation``."""
        return f"{self.service}:{self.operation.name}"


def call_of(request: Request) -> Call | None:
    """Return what *request* calls; None where no model has such an operation."""
    signing_name, region = _scope(request)
    for service in _candidates(signing_name, request):
        found = _find(service_model(service), request)
        if found is not None:
            operation, protocol, parameters = found
            return Call(service, operation, protocol, parameters, region)
    return None


@cache
def service_model(service: str) -> ServiceModel:
    """Return botocore's model of a service.

    Raises:
        botocore.exceptions.UnknownServiceError: there is none of this name.
    """
    return ServiceModel(_loader().load_service_model(service, "service-2"), service)


@cache
def service_names() -> tuple[str, ...]:
    """Return the names of all services that botocore knows."""
    return tuple(_loader().list_available_services("service-2"))


def operation_named(name: str) -> OperationModel:
    """Return the operation ``service:Operation``.

    Raises:
        ValueError: botocore knows no such service, or the service no such operation.
    """
    service, _, operation = name.partition(":")
    if service not in service_names():
        raise ValueError(f"{name}: boto3 has no client {service!r}; write SERVICE:Operation")
    model = service_model(service)
    if operation not in model.operation_names:
        raise ValueError(f"{name}: {service} has no operation {operation!r}")
    return model.operation_model(operation)


def _scope(request: Request) -> tuple[str, str]:
    """Return the service and the Region that the signature names; empty where it names none."""
    presigned = f"Credential={request.query.get('X-Amz-Credential', '')}"
    found = _SCOPE.search(request.headers.get("authorization", "")) or _SCOPE.search(presigned)
    parts = found["rest"].split("/") if found else []
    if len(parts) >= 3:  # noqa: PLR2004 - Region, service, and the word that ends it
        return parts[-2], parts[-3]
    # A signature for several Regions names none.
    return (parts[0], "") if parts else ("", "")


def _candidates(signing_name: str, request: Request) -> Iterator[str]:
    """Yield the services that the request may be for, the most probable first."""
    agent = _AGENT.search(request.headers.get("user-agent", ""))
    probable = [agent["service"] if agent else "", signing_name]
    seen = [name for name in dict.fromkeys(probable) if name in service_names()]
    yield from seen
    # Other names than those of the folders of botocore's models.
    for name in _services_by_signing_name().get(signing_name, ()):
        if name not in seen:
            yield name


@cache
def _services_by_signing_name() -> Mapping[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name in service_names():
        metadata = _metadata(name)
        signing_name = metadata.get("signingName") or metadata["endpointPrefix"]
        found.setdefault(signing_name, []).append(name)
    return found


@cache
def _loader() -> Loader:
    """Return a loader for this module alone: a client for S3 changes the paths in its model."""
    return create_loader(botocore.session.get_session().get_config_variable("data_path"))


def _metadata(service: str) -> Mapping[str, Any]:
    """Return the metadata of a service's model, with which its file begins.

    The whole models of all services take ten seconds and more to read, while a handler waits.
    """
    loader = _loader()
    version = loader.determine_latest_version(service, "service-2")
    for folder in loader.search_paths:
        path = Path(folder, service, version, "service-2.json.gz")
        if path.is_file():
            with gzip.open(path, "rt", encoding="utf-8") as file:
                *_, rest = file.read(_METADATA_CHARACTERS).partition('"metadata":')
            with suppress(ValueError):
                found: dict[str, Any] = json.JSONDecoder().raw_decode(rest.lstrip())[0]
                return found
    return service_model(service).metadata


def _find(model: ServiceModel, request: Request) -> tuple[OperationModel, str, Parameters] | None:
    protocols = {model.metadata["protocol"], *model.metadata.get("protocols", ())}
    if request.headers.get("smithy-protocol") == "rpc-v2-cbor":
        name = urlsplit(request.path).path.rpartition("/operation/")[2]
        return _named(model, name, CBOR, lambda _: _cbor(request.body))
    if target := request.headers.get("x-amz-target"):
        prefix, _, name = target.rpartition(".")
        if prefix == model.metadata.get("targetPrefix"):
            return _named(model, name, "json", lambda _: _json(request.body))
        return None
    if form := protocols & _QUERY_PROTOCOLS:
        fields = {**request.query, **request.form}
        action = fields.get("Action", "")
        return _named(model, action, form.pop(), lambda one: _unflattened(one, fields))
    if rest := protocols & _REST_PROTOCOLS:
        return _by_path(model, request, rest.pop())
    return None


def _named(
    model: ServiceModel,
    name: str,
    protocol: str,
    read: Any,  # noqa: ANN401 - see below
) -> tuple[OperationModel, str, Parameters] | None:
    """Return the operation *name*; *read* reads the parameters of the operation."""
    if name not in model.operation_names:
        return None
    operation = model.operation_model(name)
    return operation, protocol, read(operation)


def _json(body: bytes) -> Parameters:
    try:
        found = json.loads(body or b"{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _cbor(body: bytes) -> Parameters:
    if not body:
        return {}
    parser: Any = RpcV2CBORParser()
    found = parser.parse_data_item(parser.get_peekable_stream_from_bytes(body))
    return found if isinstance(found, dict) else {}


# --- query and ec2 -------------------------------------------------------------------------------


def _unflattened(operation: OperationModel, fields: Mapping[str, str]) -> Parameters:
    """Read ``Entries.member.1.Id=a`` as boto3's nested parameters."""
    shape = operation.input_shape
    return {} if shape is None else _structure(shape, fields, "")


def _structure(shape: Shape, fields: Mapping[str, str], prefix: str) -> dict[str, Any]:
    found = {}
    members: Mapping[str, Shape] = getattr(shape, "members", {})
    for name, member in members.items():
        names = [name, member.serialization.get("queryName"), member.serialization.get("name")]
        for one in filter(None, dict.fromkeys(names)):
            for written in dict.fromkeys((one, one[0].upper() + one[1:])):
                value = _value(member, fields, f"{prefix}{written}")
                if value is not None:
                    found[name] = value
    return found


def _value(shape: Shape, fields: Mapping[str, str], key: str) -> Any:  # noqa: ANN401 - JSON
    if not any(one == key or one.startswith(f"{key}.") for one in fields):
        return None
    if shape.type_name == "structure":
        return _structure(shape, fields, f"{key}.")
    if shape.type_name in ("list", "map"):
        member: Any = getattr(shape, "member", None) or getattr(shape, "value", shape)
        return _items(shape, member, fields, key)
    return fields.get(key)


def _items(
    shape: Shape, member: Shape, fields: Mapping[str, str], key: str
) -> list[Any] | dict[str, Any]:
    pattern = re.compile(rf"({re.escape(key)}\.(?:(?:member|entry|item)\.)?(\d+))(?:\.|\Z)")
    places = {int(one[2]): one[1] for field in fields if (one := pattern.match(field))}
    in_order = [places[number] for number in sorted(places)]
    if shape.type_name == "list":
        inner = member.serialization.get("name", "")
        return [
            _value(member, fields, place) or _value(member, fields, f"{place}.{inner}")
            for place in in_order
        ]
    keys = (next((fields[f"{p}.{k}"] for k in _KEYS if f"{p}.{k}" in fields), "") for p in in_order)
    values = (
        next((v for w in _VALUES if (v := _value(member, fields, f"{p}.{w}")) is not None), None)
        for p in in_order
    )
    return dict(zip(keys, values, strict=True))


_KEYS = ("key", "Name", "name", "Key")
_VALUES = ("value", "Value")


# --- rest ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Route:
    """An operation's place: what a request must have to be for it.

    Attributes:
        path: matches the path; its groups are numbered as *labels*.
        literals: how many of its characters are fixed.
        query: the fixed fields of the query; None for any value.
        required: names of the fields of the query, and of the headers, without which it is none.
    """

    operation: OperationModel
    method: str
    path: re.Pattern[str]
    labels: tuple[str, ...]
    literals: int
    query: Mapping[str, str]
    required: tuple[frozenset[str], frozenset[str]]

    def takes(self, request: Request, path: str) -> bool:
        fields = request.query
        return (
            self.method == request.method
            and all(fields.get(name) == value for name, value in self.query.items())
            and self.required[0] <= fields.keys()
            and self.required[1] <= request.headers.keys()
            and self.path.fullmatch(path) is not None
        )

    @property
    def rank(self) -> tuple[int, int]:
        """The route that asks for more is the one that is meant."""
        return self.literals, len(self.query) + sum(map(len, self.required))


@lru_cache
def _routes(model: ServiceModel) -> tuple[_Route, ...]:
    routes = (_route(model.operation_model(name)) for name in model.operation_names)
    return tuple(sorted(routes, key=lambda route: route.rank, reverse=True))


def _route(operation: OperationModel) -> _Route:
    http: Any = operation.http
    path, _, query = str(http["requestUri"]).partition("?")
    pieces = re.split(r"(\{[^}]*\})", path.rstrip("/") or "/")
    labels, pattern = [], ""
    for piece in pieces:
        if piece.startswith("{"):
            labels.append(piece.strip("{}+"))
            pattern += "(.+)" if piece.endswith("+}") else "([^/]+)"
        else:
            pattern += re.escape(piece)
    shape = operation.input_shape
    members: Mapping[str, Shape] = getattr(shape, "members", {})
    required = getattr(shape, "required_members", [])
    places = {
        location: frozenset(
            members[name].serialization.get("name", name).lower()
            if location == "header"
            else members[name].serialization.get("name", name)
            for name in required
            if members[name].serialization.get("location") == location
        )
        for location in ("querystring", "header")
    }
    return _Route(
        operation=operation,
        method=str(http.get("method", "POST")),
        path=re.compile(f"{pattern}/?"),
        labels=tuple(labels),
        literals=sum(len(piece) for piece in pieces if not piece.startswith("{")),
        query=dict(parse_qsl(query, keep_blank_values=True)),
        required=(places["querystring"], places["header"]),
    )


def _by_path(
    model: ServiceModel, request: Request, protocol: str
) -> tuple[OperationModel, str, Parameters] | None:
    path = urlsplit(request.path).path or "/"
    for route in _routes(model):
        if route.takes(request, path):
            return route.operation, protocol, _rest_parameters(route, request, path, protocol)
    return None


def _rest_parameters(route: _Route, request: Request, path: str, protocol: str) -> Parameters:
    shape = route.operation.input_shape
    if shape is None:
        return {}
    match = route.path.fullmatch(path)
    labels = dict(zip(route.labels, match.groups() if match else (), strict=True))
    payload = shape.serialization.get("payload")
    body = _json(request.body) if protocol == "rest-json" and payload is None else {}
    found: dict[str, Any] = {}
    members: Mapping[str, Shape] = getattr(shape, "members", {})
    for name, member in members.items():
        written = member.serialization.get("name", name)
        match member.serialization.get("location"):
            case "uri":
                value: Any = unquote(labels.get(written, ""))
            case "querystring":
                value = request.query.get(written)
            case "header":
                value = request.headers.get(written.lower())
            case _:
                value = body.get(written)
        if name == payload:
            value = _payload(member, request.body)
        if value is not None:
            found[name] = value
    return found


def _payload(member: Shape, body: bytes) -> Any:  # noqa: ANN401 - JSON
    if member.type_name in ("blob", "string"):
        return body.decode("utf-8", "replace")
    return _json(body)
