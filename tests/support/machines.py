"""How many lives a stateful machine of Hypothesis is tried with."""

from hypothesis import settings

# One life is dozens of steps: what suits a plain property takes minutes here.
_A_THIRD_BELOW = 1000


def machine_settings(steps: int) -> settings:
    """Return settings for machines of so many steps.

    A third of the profile's examples, all of them at night.
    """
    number = settings.default.max_examples
    if number < _A_THIRD_BELOW:
        number = number // 3
    return settings(max_examples=number, stateful_step_count=steps, deadline=None)
