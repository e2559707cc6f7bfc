"""Which exact process each engine kind is."""
