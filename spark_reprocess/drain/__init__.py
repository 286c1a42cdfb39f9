"""The verb ``drain``: parked queue to archive."""
