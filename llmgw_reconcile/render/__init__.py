"""Values to words: text, JSON, Markdown."""
