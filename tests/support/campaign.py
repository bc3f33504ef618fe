"""How long the tests run: a few minutes before a merge, or a campaign of hours.

`HEADRACE_LONG=1` (make test-long) makes it a campaign. `HEADRACE_BRIEF=1` (make test-asan, make coverage) leaves a
fifth of the examples of hypothesis, where each takes many times as long. `HEADRACE_SEED=n` replays the seed that a
failure named.
"""

import os

LONG = os.environ.get("HEADRACE_LONG") == "1"
BRIEF = os.environ.get("HEADRACE_BRIEF") == "1"
SEED = int(os.environ["HEADRACE_SEED"]) if os.environ.get("HEADRACE_SEED") else None
