from collections.abc import Hashable
from typing import Any, TypeVar

Key = TypeVar("Key", bound=Hashable)

def without_empty_places(held: dict[Key, Any]) -> dict[Key, Any]: ...
def page_of_keys(held: dict[Key, Any], cursor: int, most: int) -> tuple[int, list[Key]]: ...
