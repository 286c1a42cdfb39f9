"""Dead letters made of real webhooks, with faults of which only the test knows the cause.

Each delivery is a webhook as it would be if another sent it: the original's owner and sender are
renamed throughout, URLs included; what tells of the repository is that repository's; and ids are
unique. To that comes noise that is skewed. No error is recorded anywhere. Beside what a fault
struck there are always dead letters of all kinds that failed for reasons of their own.
"""

import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from typing import Any

from spark_reprocess.analysis.signature import shape_of
from tests.needs import WEBHOOKS

TENANTS = ("acme", "initech", "globex", "umbrella", "hooli")
TENANT_WEIGHTS = (60, 18, 10, 8, 4)
REGIONS = ("eu", "us", "ap")
REGION_WEIGHTS = (70, 20, 10)

Json = dict[str, Any]


@dataclass(slots=True)
class Delivery:
    """A dead letter.

    Attributes:
        event: what GitHub calls the kind of the webhook.
        fault: the name of what made it fail, empty where that was something of its own.
    """

    event: str
    tenant: str
    body: Json
    attributes: dict[str, str]
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Fault:
    """A cause.

    Attributes:
        events: the kinds of webhooks that it may strike.
        shapes: how many shapes of those it strikes, the most frequent.
        strike: does to a delivery what the fault does, and tells whether it strikes it at all.
        claims: the leads, as ``field = value``, of which any names the cause.
    """

    name: str
    events: tuple[str, ...]
    strike: Callable[[Delivery], bool]
    claims: tuple[str, ...]
    shapes: int = 1


@dataclass(slots=True)
class Traffic:
    """Deliveries as they come in: a few kinds are most of it, and most kinds are rare."""

    seed: int
    chance: random.Random = field(init=False)
    _webhooks: list[tuple[str, str]] = field(init=False)

    def __post_init__(self) -> None:
        """Let the seed choose which kinds are frequent."""
        self.chance = random.Random(self.seed)
        self._webhooks = list(webhooks())
        self.chance.shuffle(self._webhooks)

    def deliveries(self, events: Sequence[str] = (), shapes: int = 1) -> Iterator[Delivery]:
        """Yield them without end: all, or those of some events, in their most frequent shapes."""
        chosen = [(pair, 1 / place) for place, pair in enumerate(self._webhooks, start=1)]
        if events:
            chosen = [one for one in chosen if one[0][0] in events][:shapes]
        pairs, weights = zip(*chosen, strict=True)
        while True:
            yield self._delivered(*self.chance.choices(pairs, weights)[0])

    def struck(self, fault: Fault) -> Iterator[Delivery]:
        """Yield those that *fault* strikes, without end."""
        for delivery in self.deliveries(fault.events, fault.shapes):
            if fault.strike(delivery):
                delivery.fault = fault.name
                yield delivery

    def _delivered(self, event: str, raw: str) -> Delivery:
        chance = self.chance
        tenant = chance.choices(TENANTS, TENANT_WEIGHTS)[0]
        person = f"{tenant}-{chance.choice(_PEOPLE)}"
        name = chance.choices(*_REPOSITORIES)[0]
        body = json.loads(_renamed(raw, tenant, person, name, chance))
        _settle(body, tenant, name)
        body["delivery_id"] = f"{chance.getrandbits(128):032x}"
        body["region"] = chance.choices(REGIONS, REGION_WEIGHTS)[0]
        body["shard"] = min(int(chance.expovariate(0.7)), 15)
        attributes = {
            "trace": f"{chance.getrandbits(64):016x}",
            "schema": chance.choices(("3", "4"), (70, 30))[0],
            "consumer": f"worker-{chance.randrange(6)}",
        }
        return Delivery(event, tenant, body, attributes)


def _renamed(raw: str, tenant: str, person: str, name: str, chance: random.Random) -> str:
    """The webhook of *tenant*, set off by *person*, with ids of its own."""
    ids: dict[str, str] = {}

    def another(old: str) -> str:
        digits = "123456789" if old.isdecimal() else "0123456789abcdef"
        return ids.setdefault(old, "".join(chance.choices(digits, k=len(old))))

    texts, old_ids = _pattern(raw)
    new_ids = [another(old) for old in old_ids]
    made = "".join(part for pair in zip(texts, [*new_ids, ""], strict=True) for part in pair)
    return (
        made.replace(_TENANT_HERE, tenant).replace(_PERSON_HERE, person).replace(_NAME_HERE, name)
    )


@cache
def _pattern(raw: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What a webhook has before, between and after its ids, without its names; and its ids."""
    owners, people, repository = _names(raw)
    for old in people:
        raw = raw.replace(f'"login":"{old}"', f'"login":"{_PERSON_HERE}"')
    for old, new in (
        *((old, _TENANT_HERE) for old in owners),
        *((old, _PERSON_HERE) for old in people if old not in owners),
        (repository, _NAME_HERE),
    ):
        raw = re.sub(rf"\b{re.escape(old)}\b(?!-)", new, raw) if old else raw
    return tuple(_IDS.split(raw)), tuple(_IDS.findall(raw))


@cache
def _names(raw: str) -> tuple[tuple[str, ...], tuple[str, ...], str]:
    """The tenant's names, people's, and the repository's."""
    body = json.loads(raw)
    repository = body.get("repository", {})
    owner = repository.get("owner", {}).get("login", "")
    company = body.get("organization", {}).get("login", "")
    people = sorted(set(re.findall(r'"login":"([^"]+)"', raw)) - {company})
    name = repository.get("name", "")
    return tuple({owner, company} - {""}), tuple(people), name if len(name) > 5 else ""


def _settle(body: Json, tenant: str, name: str) -> None:
    """Give the tenant, whom several fields name, one name and one id; and a repository."""
    number = 1000 + TENANTS.index(tenant)
    if "repository" in body and "owner" in body["repository"]:
        body["repository"].update(_of_repository(tenant, name))
        body["repository"]["owner"].update(login=tenant, id=number)
    if "organization" in body:
        body["organization"].update(login=tenant, id=number + 500)
    if "installation" in body:
        body["installation"]["id"] = number + 900
    sender = body.get("sender", {})
    for name_of, text in sender.items():
        if isinstance(text, str):
            sender[name_of] = text.replace(f"/{tenant}", f"/{sender['login']}")


def _of_repository(tenant: str, name: str) -> Json:
    """What every webhook says of one of the tenant's repositories."""
    own = random.Random(f"{tenant}/{name}")
    return {
        "name": name,
        "full_name": f"{tenant}/{name}",
        "private": own.random() < 0.5,
        "language": own.choice(("Ruby", "Go", "Python", None)),
        "license": None,
        "description": f"Where {tenant} keeps {name}",
        "default_branch": own.choice(("main", "master")),
        "size": own.randrange(900),
        **{count: own.randrange(40) for count in _COUNTS},
    }


_TENANT_HERE, _PERSON_HERE, _NAME_HERE = "甲", "乙", "丙"
"""Stand for the names in a pattern: letters, as names are, that no webhook has."""

_PEOPLE = ("ann", "ben", "cem", "dot")
_REPOSITORIES = (("shop", "stock", "pay"), (60, 30, 10))
_COUNTS = ("open_issues", "open_issues_count", "watchers", "watchers_count", "stargazers_count")
_ANOTHER_OWNER = re.compile(r'"owner":\{"login":"(?!Codertocat|Octocoders)|/orgs/(?!Octocoders)')
_IDS = re.compile(r"\b[0-9a-f]{40}\b|\b\d{5,}\b|(?<=\"node_id\":\")[^\"]+")


@cache
def webhooks() -> tuple[tuple[str, str], ...]:
    """Event and body of the first webhook of each shape: of most there is one."""
    found: dict[str, tuple[str, str]] = {}
    for line in WEBHOOKS.read_text(encoding="utf-8").splitlines():
        webhook = json.loads(line)
        if _ANOTHER_OWNER.search(webhook["body"]):
            continue
        body = json.dumps(json.loads(webhook["body"]), separators=(",", ":"), ensure_ascii=False)
        found.setdefault(shape_of(body).key, (webhook["event"], body))
    return tuple(found.values())


def dead_letters(
    seed: int, healthy: int, faults: Sequence[Fault] = (), of_each: int = 0
) -> list[Delivery]:
    """So many that failed for reasons of their own, and for each shape that a fault strikes."""
    traffic = Traffic(seed)
    found = list(islice(traffic.deliveries(), healthy))
    for fault in faults:
        found += islice(traffic.struck(fault), of_each * fault.shapes)
    traffic.chance.shuffle(found)
    return found


def _without(name: str, *way: str) -> Callable[[Delivery], bool]:
    def strike(delivery: Delivery) -> bool:
        inside = delivery.body
        for step in way:
            inside = inside[step]
        return inside.pop(name, None) is not None

    return strike


def _with(name: str, value: object, *way: str) -> Callable[[Delivery], bool]:
    def strike(delivery: Delivery) -> bool:
        inside = delivery.body
        for step in way:
            inside = inside[step]
        inside[name] = value
        return True

    return strike


def _of_tenant(delivery: Delivery) -> bool:
    return delivery.tenant == "globex" and "globex" in json.dumps(delivery.body)


def _bad_sender(delivery: Delivery) -> bool:
    delivery.body["sender"] = "n/a"
    return _of_tenant(delivery)


def _garbled(delivery: Delivery) -> bool:
    """The tenant's data is wrong in a way that differs from message to message."""
    repository = delivery.body.get("repository")
    if not _of_tenant(delivery) or not isinstance(repository, dict):
        return False
    repository["description"] = f"\x00{random.Random(delivery.body['delivery_id']).random()}"
    return True


def _in_ap(delivery: Delivery) -> bool:
    return bool(delivery.body["region"] == "ap")


_TENANT = (
    "body.repository.owner.login = globex",
    "body.organization.login = globex",
    "body.pusher.name = globex",
)

FAULTS = (
    Fault("field missing", ("pull_request",), _without("number"), ("body.number is missing",)),
    Fault(
        "field missing inside",
        ("pull_request",),
        _without("sha", "pull_request", "head"),
        ("body.pull_request.head.sha is missing",),
    ),
    Fault(
        "new kind",
        ("issues", "label"),
        _with("action", "archived"),
        ("body.action = archived",),
    ),
    Fault(
        "new enum value",
        ("check_run", "check_suite", "repository"),
        _with("type", "Mannequin", "sender"),
        ("body.sender.type = Mannequin",),
    ),
    Fault("tenant's bad field", ("release", "push", "create", "fork"), _bad_sender, _TENANT, 2),
    Fault(
        "tenant's bad text", ("milestone", "star", "issue_comment", "gollum"), _garbled, _TENANT, 2
    ),
    Fault(
        "dependency",
        ("deployment", "deployment_status", "page_build", "pull_request_review"),
        _in_ap,
        ("body.region = ap",),
        shapes=2,
    ),
)
