"""The store and its model live through the same random history without a difference."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings
from stateful.machine import StoreMachine

STEPS = 50
# More than 10,000 steps in every run of the tests, the same ones; five times as many new ones every night.
EXAMPLES = {"ci": 1000, "fast": 230}[os.environ.get("RMQCORE_HYPOTHESIS", "fast")]

TestStore = StoreMachine.TestCase
TestStore.settings = settings(
    max_examples=EXAMPLES,
    stateful_step_count=STEPS,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
