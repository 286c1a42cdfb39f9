"""Text of errors: what is masked, and what two errors have in common."""
