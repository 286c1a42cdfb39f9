"""plan.yaml as a value and as a text."""
