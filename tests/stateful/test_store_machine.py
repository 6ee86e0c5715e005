"""The store and its model live through the same random history without a difference."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from stateful.machine import StoreMachine
from support.doses import dose

pytestmark = [pytest.mark.slow, pytest.mark.smoke]
STEPS = 50
# 2,000 steps with `make test`, always the same ones; new ones with `make verify`, more than 10,000, and 50,000 every night.
EXAMPLES = dose("RMQCORE_STORE_MACHINE", test=40, verify=230, night=1000)

TestStore = StoreMachine.TestCase
TestStore.settings = settings(
    max_examples=EXAMPLES,
    stateful_step_count=STEPS,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
