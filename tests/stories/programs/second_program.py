"""A second program that opens the same directory by mistake: it is refused, and does no harm.

python second_program.py directory
"""

import sys

import headrace
from headrace.core.errors import HeadraceError

try:
    headrace.open(sys.argv[1])
except HeadraceError as refusal:
    sys.exit(0 if "in use" in str(refusal) else 1)
sys.exit(1)
