"""The verb ``restore``: archived messages go back to the parked queue, as they were."""
