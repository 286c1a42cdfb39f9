"""What stands beside a group in the plan."""

from spark_reprocess.analysis.outputs import plan_notes
from tests.findings_builder import a_group, a_lead, some_findings


def test_a_note_says_how_many_what_sets_them_apart_and_how_to_select_them() -> None:
    lead = a_lead(condition="get_json_object(body, '$.region') = 'eu'")
    group = a_group(count=30, trend="rising", leads=(lead, a_lead(field="second")))

    notes = plan_notes(some_findings(group, a_group(group_id="g-2", count=10)))

    assert notes["g-0123456789"] == [
        "75% of 40 undecided messages, rising",
        "lead: body.customer.region = eu-west-3: 97% here, 4.1% of all others",
        """--where 'get_json_object(body, '"'"'$.region'"'"') = '"'"'eu'"'"''""",
    ]


def test_without_a_trend_a_lead_or_a_condition_nothing_is_said_of_it() -> None:
    plain = a_group(trend="", leads=())
    masked = a_group(group_id="g-2", trend="", leads=(a_lead(condition=""),))

    notes = plan_notes(some_findings(plain, masked))

    assert notes["g-0123456789"] == ["50% of 20 undecided messages"]
    assert [line.split(":")[0] for line in notes["g-2"]] == [
        "50% of 20 undecided messages",
        "lead",
    ]
