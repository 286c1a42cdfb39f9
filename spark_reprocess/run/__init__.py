"""The verb ``run``: drain, analyze, apply the policy, redrive, report; what a schedule starts."""
