"""Hypothesis profiles: RMQCORE_HYPOTHESIS chooses between "fast" (default) and "ci"."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import HealthCheck, settings

_common: dict[str, Any] = {
    "deadline": None,
    "print_blob": True,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],
}
# The same examples in every run: what fails for one person fails for all.
settings.register_profile("fast", max_examples=100, derandomize=True, database=None, **_common)
# New examples in every run; a failure prints the line that repeats it.
settings.register_profile(
    "ci", max_examples=int(os.environ.get("RMQCORE_EXAMPLES", "1500")), **_common
)
settings.load_profile(os.environ.get("RMQCORE_HYPOTHESIS", "fast"))
