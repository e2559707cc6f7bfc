"""Declarative reconciler for LLM inference engines on bare-metal GPU nodes."""

__version__ = "0.1.0"
