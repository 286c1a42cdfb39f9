"""A batch of dead letters, from the records of an event to answers and metrics."""
