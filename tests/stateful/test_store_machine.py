"""The store and its model live through the same random history without a difference."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings
from stateful.machine import StoreMachine

pytestmark = pytest.mark.slow
STEPS = 50
# More than 10,000 steps in every run of the tests, always the same steps; five times as many new steps every night.
EXAMPLES = {"ci": 1000, "fast": 230}[os.environ.get("RMQCORE_HYPOTHESIS", "fast")]

TestStore = StoreMachine.TestCase
TestStore.settings = settings(
    max_examples=EXAMPLES,
    stateful_step_count=STEPS,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
