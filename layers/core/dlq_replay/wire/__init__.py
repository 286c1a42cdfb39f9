"""What is on the wire: messages, their attributes and context, and the events of Lambda."""
