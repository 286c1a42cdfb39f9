"""What is remembered of groups: what people said, what analyses saw, and the status. Pure."""
