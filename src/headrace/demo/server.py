"""`headrace serve`, in a process that does not outlive the demo: `python -m headrace.demo.server --SETTING VALUE …`."""

import sys

from headrace.demo.children import end_with_parent
from headrace.server.starting import serve

if __name__ == "__main__":
    end_with_parent()
    serve(sys.argv[1:])
