"""What an analysis found, as one self-contained page."""
