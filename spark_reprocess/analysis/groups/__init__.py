"""Which failures are one group: masks, shapes and signatures."""
