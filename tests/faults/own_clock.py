"""`vllm-arms` with a wall clock of its own, which a signal sets back by an hour.

The monotonic clock is the machine's, which nobody can set.
"""

import signal
import sys
from datetime import UTC, datetime, timedelta

import time_machine

from orchestrator.cli.app import main

SET_BACK = signal.SIGUSR1
STEP = timedelta(hours=1)

if __name__ == "__main__":
    with time_machine.travel(datetime.now(UTC), tick=True) as clock:
        signal.signal(SET_BACK, lambda *_: clock.shift(-STEP))
        sys.exit(main())
