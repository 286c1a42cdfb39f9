"""Messages on disk or S3: files, rows, and the ledger of what became of each.

What reads or writes the archive raises ArchiveError where the storage refuses, or where a file is
gone, damaged or changed; the text names the file. Docstrings name other errors alone.
"""
