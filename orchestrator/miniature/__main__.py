"""`python -m orchestrator.miniature`."""

import os
import sys

# Before NumPy is loaded. vLLM for CPU serves with one thread as well, and here a second one costs
# more than it brings; how products are divided among threads is also part of their bits.
for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

from .service import main  # noqa: E402 - see above

sys.exit(main(sys.argv[1:]))
