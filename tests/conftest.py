"""One thread for numpy: its products here are small, and the builds under test want the cores."""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
