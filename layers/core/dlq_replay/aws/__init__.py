"""Adapters: queues and tables on AWS, by botocore."""
