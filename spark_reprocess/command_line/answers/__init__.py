"""What each verb tells the person at the terminal. No body is ever printed here."""

COMMAND = "python -m spark_reprocess"
