"""Python's garbage collections, kept as short as a server needs them.

A full collection looks at every object that may be part of a cycle. Ten thousand streams with their rules are some two
hundred thousand such objects, and the server stood still for 20 to 170 ms (`python -m bench.rule_turns`). But nothing
that lives for long becomes garbage in a cycle here: what is not needed any more is freed by counting references
(tests/engine/test_garbage.py). So each tick of the server freezes what is there, which takes no time, and collections
look only at what is younger.

In process, collections are the program's own affair.
"""

import gc


def postpone() -> None:
    """Collect nothing until `begin`: imports leave no garbage. A start takes 8 % less processor time so."""
    gc.disable()


def begin() -> None:
    """Collect from now on, and pass over all that the start has made."""
    gc.freeze()
    gc.enable()


def freeze_survivors() -> None:
    """Let collections pass over all that is there now."""
    gc.freeze()
