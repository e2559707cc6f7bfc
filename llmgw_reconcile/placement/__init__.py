"""Which engine gets which GPUs and which port."""
