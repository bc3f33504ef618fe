from typing import final

from headrace.core.rax import Rax

@final
class RaxIterator:
    def __init__(self, tree: Rax) -> None: ...
