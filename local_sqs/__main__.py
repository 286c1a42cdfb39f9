"""``python -m local_sqs``."""

from local_sqs.server import main

if __name__ == "__main__":
    main()
