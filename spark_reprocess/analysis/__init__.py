"""The verb ``analyze``: what failed, why, and what sets it apart."""
