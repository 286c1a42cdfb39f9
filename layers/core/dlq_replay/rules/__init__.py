"""What is to be done with a dead letter, and the copy that does it. Pure."""
