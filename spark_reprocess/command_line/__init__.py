"""Arguments in, lines and tables out."""
