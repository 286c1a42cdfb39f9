"""What the job needs of Spark itself: a session, conditions, failures."""
