"""Messages on disk or S3: files, rows, and the ledger of what became of each."""
