"""What sets a group apart: features, contrasts and their words."""
