"""Runs the command: ``python -m dlq VERB``."""

from dlq.cli import program

if __name__ == "__main__":
    program()
