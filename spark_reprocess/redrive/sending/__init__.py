"""One task that sends: claims, rate, limits and stops."""
