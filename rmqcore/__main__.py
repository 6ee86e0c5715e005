"""``python -m rmqcore``: the command line, where its script is not on the PATH."""

import sys

from rmqcore.cli import main

if __name__ == "__main__":
    sys.exit(main())
