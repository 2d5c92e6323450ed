"""What holds for all tests: a machine that is loaded or slow is no reason to fail."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# The profile that Hypothesis chooses itself (with CI=true the same examples on every run), without limits of time.
settings.register_profile(
    "any-machine", settings.default, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any-machine")
