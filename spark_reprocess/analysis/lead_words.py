"""A lead in words. Pure."""

from spark_reprocess.figures import percent
from spark_reprocess.findings import Lead, Synonym, state_of


def lead_words(lead: Lead) -> str:
    """Say a lead in one line: ``body.tenant = acme: 87% here, 2% of all others``."""
    return (
        f"{claim_words(lead)}: {percent(lead.group_share)} here, "
        f"{percent(lead.other_share)} of {lead.compared_with}"
    )


def claim_words(lead: Lead | Synonym) -> str:
    """Say what a lead claims: ``body.tenant = acme``, ``body.customer is missing``."""
    state = state_of(lead.value)
    return f"{lead.field} is {state}" if state else f"{lead.field} = {lead.value}"
