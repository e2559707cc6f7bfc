"""`python -m llmgw_reconcile` is the command `llmgw`."""

from llmgw_reconcile.cli.main import run

if __name__ == "__main__":
    run()
