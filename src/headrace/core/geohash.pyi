from collections.abc import Iterable
from typing import NamedTuple, Self, final

LONGITUDES: tuple[float, float]
LATITUDES: tuple[float, float]

class Place(NamedTuple):
    member: bytes
    score: float
    longitude: float
    latitude: float
    distance: float

def encode(longitude: float, latitude: float) -> int: ...
def decode(score: float) -> tuple[float, float]: ...
def standard_text(score: float) -> bytes: ...
def distance_between(first: float, second: float) -> float: ...

@final
class SearchArea:
    longitude: float
    latitude: float
    @classmethod
    def circle(cls, longitude: float, latitude: float, radius: float) -> Self: ...
    @classmethod
    def box(cls, longitude: float, latitude: float, width: float, height: float) -> Self: ...
    def score_ranges(self) -> list[tuple[float, float]]: ...
    def collect(self, pairs: Iterable[tuple[bytes, float]], found: list[Place], most: int) -> None: ...
