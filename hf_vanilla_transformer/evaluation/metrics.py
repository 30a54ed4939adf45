"""Write figures as a reader wants them: rounded, grouped by thousands, with a unit."""

DECIMALS = {"bleu": 2, "chrf": 2, "ter": 2, "loss": 4, "perplexity": 2}
"""Decimals of a score, as `evaluate` prints them; metrics of others are not here."""


def shown_score(metric: str, value: object) -> object:
    """Return a score with the decimals of its metric; one of others as it is."""
    if metric in DECIMALS and isinstance(value, int | float):
        return f"{value:,.{DECIMALS[metric]}f}"
    return value


def shown_count(number: float) -> str:
    """Return a number that is mostly whole, with two decimals at most."""
    whole, _, decimals = f"{number:,.2f}".partition(".")
    decimals = decimals.rstrip("0")
    return f"{whole}.{decimals}" if decimals else whole


def shown_time(seconds: float) -> str:
    """Return a time in its two largest units of hours, minutes and seconds."""
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if minutes else f"{rest} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours:,} h {minutes} min"
