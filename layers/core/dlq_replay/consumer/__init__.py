"""The consumer kit: optional helpers for consumers of the main queue.

No module of the core imports it, and importing this package loads nothing.
"""
