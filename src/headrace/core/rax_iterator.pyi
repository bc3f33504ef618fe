from typing import final

from headrace.core.rax import Rax

@final
class RaxIterator:
    def __new__(cls, tree: Rax) -> RaxIterator: ...
