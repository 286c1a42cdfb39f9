"""What a plan means for each message now: its queue, its edit, its disposition."""
