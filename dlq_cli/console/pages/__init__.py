"""The pages of the console, by what they show."""
