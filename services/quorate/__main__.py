"""``python -m quorate`` is ``quorate``."""

import sys

from quorate.cli import main

sys.exit(main())
