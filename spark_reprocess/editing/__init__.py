"""How a redrive changes messages on their way: JSON bodies by JSON Patch, attributes by SQL."""
