"""Files on disk or S3, records and tables in them."""
