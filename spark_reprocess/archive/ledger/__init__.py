"""What happened to each message: claims, results, states, and what is pending."""
