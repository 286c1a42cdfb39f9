"""Edits of a redrive: JSON Patch for JSON bodies, Spark SQL for attributes."""
