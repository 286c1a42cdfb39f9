"""A live installation from the outside: what ``dlq doctor`` finds and says about it."""
