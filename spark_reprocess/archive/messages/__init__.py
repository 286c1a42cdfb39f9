"""The archived messages: their columns, files, frames and order."""
