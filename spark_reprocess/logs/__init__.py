"""The reasons of failures that only a consumer's log has: events, exceptions, whose they are."""
