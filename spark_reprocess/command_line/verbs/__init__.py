"""The verbs, a module each: its arguments, and what runs it."""
