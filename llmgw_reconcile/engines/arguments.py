"""The `args` of a model to the value that they give a flag, in the engine's own words."""

from __future__ import annotations

from llmgw_reconcile.model.desired import ModelSpec


def argument_value(model: ModelSpec, *flags: str) -> str | None:
    """What `args` give one of these long flags, as written: empty for a flag alone, None where none of them stands.

    Written with `=` or a space, with dashes or underscores; the last one counts, as it does for argparse. A flag that
    is cut short is not recognised here.
    """
    found = None
    for position, item in enumerate(model.args):
        if not isinstance(item, str) or not item.startswith("--"):
            continue
        flag, equals, value = item.partition("=")
        if flag.replace("_", "-") in flags:
            following = model.args[position + 1] if position + 1 < len(model.args) else ""
            is_value = isinstance(following, str) and not following.startswith("--")
            found = value if equals else following if is_value and isinstance(following, str) else ""
    return found


def mentions(model: ModelSpec, word: str) -> bool:
    """Whether an item of `args`, or a literal of `env`, has this word in it, in whatever case and place."""
    texts = (*model.args, *model.env.values())
    return any(isinstance(text, str) and word in text.lower() for text in texts)
