"""The report of an analysis as one self-contained HTML page."""
