"""How long a test waits for what must come: a deadline that only a fault reaches, however busy the machine is.

Processes may also be stopped for a minute, and clocks go on meanwhile.
"""

PATIENCE_S = 120.0
