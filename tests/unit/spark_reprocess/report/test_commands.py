"""What a reader copies is run here by real shells, and acts on a real plan."""

import shlex
import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_reprocess.report.views import lead_with_option, places, quoted
from tests.support.findings_builder import HOSTILE_TEXTS, a_group, a_lead, some_findings

SH = shutil.which("dash") or "sh"
TYPEABLE = st.text(
    st.characters(codec="utf-8", exclude_characters="\0") | st.sampled_from("'\"\\$`! ")
)
_CARRIED = [text for text in HOSTILE_TEXTS if "\0" not in text and "\ud800" not in text]


def shell_words(line: str) -> list[str]:
    script = f"printf '%s\\0' {line}"
    printed = subprocess.run([SH, "-c", script], capture_output=True, check=True).stdout
    return printed.decode().split("\0")[:-1]


@settings(max_examples=25)
@given(st.lists(TYPEABLE | st.sampled_from(_CARRIED), min_size=1, max_size=20))
def test_every_posix_shell_reads_back_what_was_quoted(texts: list[str]) -> None:
    assert shell_words(" ".join(quoted(text) for text in texts)) == texts


def test_a_condition_reads_well_in_double_quotes_unless_a_shell_would_expand_it() -> None:
    assert (
        quoted("get_json_object(body, '$.a') = 'b'") == "\"get_json_object(body, '\\$.a') = 'b'\""
    )
    assert quoted("a != 'b'") == "'a != '\"'\"'b'\"'\"''"


def test_the_commands_name_archive_and_plan() -> None:
    findings = some_findings(a_group(), archive="s3://b/my archive", plan_path="/r/plan.yaml")

    assert places(findings) == "--archive 's3://b/my archive' --plan /r/plan.yaml"


def test_a_plan_in_the_archive_is_named_by_its_id() -> None:
    findings = some_findings(a_group(), archive="/a", plan_path="/a/reports/r-1/plan.yaml")

    assert places(findings) == f"--archive /a --plan {findings.plan_id}"


def test_the_strongest_lead_with_a_condition_narrows_the_redrive() -> None:
    leads = (a_lead(), a_lead(value="second", condition="tenant = 'a'"), a_lead(condition="x"))

    lead, option = lead_with_option(leads)

    assert lead == leads[1]
    assert shlex.split(option) == ["--where", "tenant = 'a'"]


@pytest.mark.parametrize("condition", ["", "a = '\0'", "a = '\u202e'", "x" * 2_001])
def test_a_condition_that_no_shell_should_carry_is_left_out(condition: str) -> None:
    assert lead_with_option([a_lead(condition=condition)]) == (None, "")
