"""Learning rate: linear warm-up, then the inverse square root of the step."""


def learning_rate(step: int, *, peak: float, warmup_steps: int) -> float:
    """Return the rate of update `step`, counted from 1.

    It grows linearly to `peak` at `warmup_steps` and falls as 1/sqrt(step) from there. With
    `paper_peak` this is Vaswani et al. 2017, §5.3, eq. 3:
    d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5).
    """
    return peak * min((warmup_steps / step) ** 0.5, step / warmup_steps)


def paper_peak(*, d_model: int, warmup_steps: int) -> float:
    """Return the highest rate of the paper's schedule, (d_model * warmup_steps)^-0.5."""
    return (d_model * warmup_steps) ** -0.5
