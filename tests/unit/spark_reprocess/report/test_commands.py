"""What a reader copies is run here by real shells, and acts on a real plan."""

import shlex
import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_reprocess.report.texts import lead_with_option, places, quoted, visible
from tests.support.findings_builder import HOSTILE_TEXTS, a_group, a_lead, some_findings

BASH = shutil.which("bash") or "bash"
SH = shutil.which("dash") or "sh"
PRINTABLE = st.text(st.characters(categories=("L", "N", "P", "S")) | st.sampled_from("'\"\\$`! "))
TYPEABLE = st.text(st.characters(codec="utf-8", exclude_characters="\0"))


_CARRIED = [text for text in HOSTILE_TEXTS if "\0" not in text and "\ud800" not in text]


def shell_words(line: str, shell: str) -> list[str]:
    script = f"printf '%s\\0' {line}"
    printed = subprocess.run([shell, "-c", script], capture_output=True, check=True).stdout
    return printed.decode().split("\0")[:-1]


@settings(max_examples=25)
@given(st.lists(TYPEABLE | st.sampled_from(_CARRIED), min_size=1, max_size=20))
def test_a_shell_reads_back_what_was_quoted(texts: list[str]) -> None:
    assert shell_words(" ".join(quoted(text) for text in texts), BASH) == texts


@settings(max_examples=25)
@given(st.lists(PRINTABLE, min_size=1, max_size=20))
def test_every_posix_shell_reads_back_printable_text(texts: list[str]) -> None:
    assert shell_words(" ".join(quoted(text) for text in texts), SH) == texts


@given(TYPEABLE)
def test_what_is_quoted_shows_every_character_that_it_has(text: str) -> None:
    assert quoted(text).isprintable()
    assert visible(quoted(text)) == quoted(text)


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


@pytest.mark.parametrize("condition", ["", "a = '\0'", "x" * 2_001])
def test_a_condition_that_no_shell_should_carry_is_left_out(condition: str) -> None:
    assert lead_with_option([a_lead(condition=condition)]) == (None, "")
