"""Clients of AWS, who calls, and the limit of the circuit breaker."""
