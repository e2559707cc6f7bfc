"""What an app of three commands costs that does nothing but let click print its help."""

import click


@click.group()
def app() -> None:
    """An app."""


@app.command()
def plan() -> None:
    """Show."""


@app.command()
def apply() -> None:
    """Do."""


@app.command()
def status() -> None:
    """Look."""


if __name__ == "__main__":
    app()
