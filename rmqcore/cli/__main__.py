"""``python -m rmqcore.cli``: the same as the ``rmqcore`` command."""

from __future__ import annotations

import sys

from rmqcore.cli import main

sys.exit(main())
