"""The verb ``redrive``: what a plan says, done to exactly the messages that it froze."""
