"""GEOADD, GEOSEARCH and their like, beside redis-server 7.0.15: scores, coordinates and distances to the byte."""

import random
from collections.abc import Iterator

import pytest
import redis

from support.campaign import LONG, SEED
from support.in_process import InProcess
from support.raw_client import RawClient, Word

ROUNDS = 40_000 if LONG else 700
SEEDS = [SEED] if SEED is not None else [random.randrange(2**32)] if LONG else [1, 2, 3]
UNITS = ("m", "km", "FT", "mi")
EDGES = (0, 1e-9, 180, -180, 179.999999, -179.999999, 90, -90)
NORTHERNMOST = 85.05112878


@pytest.fixture(params=[2, 3])
def both(
    request: pytest.FixtureRequest, headrace_server: redis.Redis, redis_server: redis.Redis
) -> Iterator[tuple[RawClient, RawClient]]:
    protocol = request.param
    with RawClient.of(headrace_server, protocol) as ours, RawClient.of(redis_server, protocol) as theirs:
        yield ours, theirs


def compare(both: tuple[RawClient, RawClient], *words: Word) -> bytes:
    ours, theirs = both
    found, expected = ours.run(*words), theirs.run(*words)
    assert found == expected, (words, found, expected)
    return found


class PlaceCommands:
    """Random places, all over the earth or near to each other, and random searches among them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.members = [b"m%d" % number for number in range(60)]
        self.centre = self.place()

    def place(self) -> tuple[float, float]:
        return self.random.uniform(-180, 180), self.random.uniform(-NORTHERNMOST, NORTHERNMOST)

    def near(self) -> tuple[float, float]:
        """Draw a place near the others, at none of theirs: in which order Redis sorts equal distances is chance."""
        while True:
            spread = self.random.choice((0.1, 1, 10, 60))
            longitude, latitude = (self.random.gauss(middle, spread) for middle in self.centre)
            if abs(longitude) <= 180 and abs(latitude) <= NORTHERNMOST:
                return longitude, latitude

    def anywhere(self) -> tuple[float, float]:
        """Draw a place to look around: also the ends of the map."""
        if self.random.random() < 0.1:
            return self.random.choice(EDGES), self.random.choice((0, 66, -66.1, 80, -81, NORTHERNMOST, -NORTHERNMOST))
        return self.near() if self.random.random() < 0.7 else self.place()

    def add(self) -> list[Word]:
        rng = self.random
        options = rng.choice(([], [], [], ["NX"], ["xx"], ["CH"], ["NX", "CH"]))
        words: list[Word] = ["GEOADD", "k", *options]
        for _ in range(rng.randint(1, 5)):
            longitude, latitude = self.near() if rng.random() < 0.8 else self.place()
            words += [repr(longitude), repr(latitude), rng.choice(self.members)]
        return words

    def length(self) -> str:
        return repr(self.random.choice((0.0, 1.0, 100.0, 5000.0, 40_000.0)) * self.random.random() ** 2)

    def options(self) -> list[Word]:
        rng = self.random
        words: list[Word] = [word for word in ("WITHDIST", "WITHHASH", "withcoord") if rng.random() < 0.5]
        words += rng.choice(([], ["ASC"], ["desc"]))
        if rng.random() < 0.5:
            words += ["COUNT", rng.randint(1, 9), *rng.choice(([], ["ANY"]))]
        return words

    def search(self) -> list[Word]:
        rng = self.random
        longitude, latitude = self.anywhere()
        centre: list[Word] = [repr(longitude), repr(latitude)]
        member, unit = rng.choice(self.members), rng.choice(UNITS)
        kind = rng.randrange(6)
        if kind == 0:
            return [rng.choice(("GEORADIUS", "GEORADIUS_RO")), "k", *centre, self.length(), unit, *self.options()]
        if kind == 1:
            name = rng.choice(("GEORADIUSBYMEMBER", "GEORADIUSBYMEMBER_RO"))
            return [name, "k", member, self.length(), unit, *self.options()]
        source: list[Word] = ["FROMLONLAT", *centre] if rng.random() < 0.6 else ["FROMMEMBER", member]
        area: list[Word] = ["BYRADIUS", self.length(), unit]
        if rng.random() < 0.5:
            area = ["BYBOX", self.length(), self.length(), unit]
        if kind == 2:
            return ["GEOSEARCHSTORE", "d", "k", *source, *area, *rng.choice(([], ["STOREDIST"], ["COUNT", "3"]))]
        if kind == 3:
            stored = [rng.choice(("STORE", "STOREDIST")), "d"]
            return ["GEORADIUS", "k", *centre, self.length(), unit, *stored, *rng.choice(([], ["COUNT", "2"]))]
        return ["GEOSEARCH", "k", *area, *source, *self.options()]


@pytest.mark.parametrize("seed", SEEDS)
def test_random_places_are_added_and_found_as_there(both: tuple[RawClient, RawClient], seed: int) -> None:
    commands = PlaceCommands(seed)
    chance = commands.random
    found = 0
    for _ in range(ROUNDS):
        if chance.random() < 0.25:
            compare(both, *commands.add())
            compare(both, "ZRANGE", "k", 0, -1, "WITHSCORES")
        elif chance.random() < 0.02:
            compare(both, "DEL", "k")
            commands.centre = commands.place()
        elif chance.random() < 0.3:
            some = chance.choices(commands.members, k=3)
            compare(both, "GEOPOS", "k", *some)
            compare(both, "GEOHASH", "k", *some)
            compare(both, "GEODIST", "k", *some[:2], chance.choice(UNITS))
        else:
            words = commands.search()
            found += len(compare(both, *words)) > 20
            if b"d" in words or "d" in words:
                compare(both, "ZRANGE", "d", 0, -1)
    assert found > ROUNDS // 20


def test_scores_that_are_no_places_are_read_as_there(both: tuple[RawClient, RawClient]) -> None:
    scores = ("-1", "-0.5", "1.5", "inf", "-inf", "4503599627370496", "9007199254740993", "9223372036854775807")
    for score in (*scores, "1e19", "1e300", "-1e300", "18446744073709551615", "-9223372036854775808", "123456789.75"):
        compare(both, "ZADD", "k", score, "a", "3479099956230698", "b")
        compare(both, "GEOPOS", "k", "a", "b")
        compare(both, "GEOHASH", "k", "a")
        compare(both, "GEODIST", "k", "a", "b")
        compare(both, "GEOSEARCH", "k", "FROMMEMBER", "a", "BYRADIUS", "100", "km", "WITHHASH", "WITHDIST", "ASC")
        compare(both, "GEOSEARCH", "k", "FROMLONLAT", "0", "0", "BYRADIUS", "inf", "km", "WITHHASH", "ASC")


def test_other_requests_are_refused_or_answered_as_there(both: tuple[RawClient, RawClient]) -> None:
    lines = """
        GEOADD e 180 85.05112878 ne -180 85.05112878 nw 180 -85.05112878 se -180 -85.05112878 sw 0 0 middle
        GEOPOS e ne nw|GEOPOS e se sw middle|GEOHASH e ne nw se sw middle|GEODIST e ne sw
        GEOSEARCH e FROMMEMBER ne BYRADIUS 1 m|GEOSEARCH e FROMMEMBER sw BYRADIUS 0 m
        GEOSEARCH e FROMLONLAT 180 85 BYBOX 100 100 km|GEORADIUS e 180 0 10000 km
        GEOSEARCH e FROMLONLAT 0 0 BYRADIUS 99999 km WITHHASH|GEOSEARCH e FROMMEMBER nw BYBOX 40000 1 km WITHDIST
        DEL e|GEOADD k 13.361389 38.115556 Palermo 15.087269 37.502669 Catania|GEOADD k 13.361389 38.115556 Palermo
        RPUSH l a|GEOADD k NX 1 1 Palermo 2 2 new|GEOADD k XX CH 1 1 Palermo 3 3 other|GEOADD k NX XX 1 1 a
        GEOADD k NX CH XX|GEOADD k 181 1 a|GEOADD k 1 86 a|GEOADD k x 1 a|GEOADD k 1 x a|GEOADD k inf -inf a
        GEOADD k 1 1 a 1 1|GEOADD k 1 1|GEOADD k nx ch nx|GEOADD l 1 1 a|GEOADD l x 1 a|GEOADD k 1 2 a 1 99 b|EXISTS a
        GEOPOS k a|GEOADD k nan 1 a|GEOPOS k|GEOPOS none a b|GEOPOS none|GEOPOS l a|GEOPOS k Palermo none|GEOHASH k
        GEOHASH none a|GEOHASH l a|GEOHASH k Palermo none Catania|GEODIST k Palermo Catania
        GEODIST k Palermo Catania x|GEODIST k Palermo none|GEODIST none a b|GEODIST none a b x
        GEODIST k Palermo Catania m more|GEODIST l a b|GEODIST k Palermo|GEOSEARCH none FROMMEMBER a BYRADIUS 1 m
        GEOSEARCH none FROMMEMBER a BYRADIUS 1 x|GEOSEARCH none ASC ASC ASC ASC ASC
        GEOSEARCH k FROMMEMBER none BYRADIUS 1 m|GEOSEARCH k FROMMEMBER Palermo FROMLONLAT 1 1 BYRADIUS 1 m
        GEOSEARCH k FROMLONLAT 1 1 FROMMEMBER Palermo BYRADIUS 1 m|GEOSEARCH k FROMLONLAT 1 1 BYRADIUS 1 m BYBOX 1 1 m
        GEOSEARCH k FROMLONLAT 1 1 BYBOX 1 1 m BYRADIUS 1 m|GEOSEARCH k FROMLONLAT 1 1 FROMLONLAT 2 2 BYRADIUS 1 m
        GEOSEARCH k FROMMEMBER Palermo FROMMEMBER Catania BYRADIUS 1 m|GEOSEARCH k FROMLONLAT 1 1 ASC DESC ASC
        geosearch k BYRADIUS 1 m ASC DESC ASC|GEOSEARCH k FROMLONLAT 1 1 BYRADIUS -1 m
        GEOSEARCH k FROMLONLAT 1 1 BYRADIUS x m|GEOSEARCH k FROMLONLAT 1 1 BYBOX -1 1 m
        GEOSEARCH k FROMLONLAT 1 1 BYBOX x 1 m|GEOSEARCH k FROMLONLAT 1 1 BYBOX 1 x m
        GEOSEARCH k FROMLONLAT 1 1 BYBOX 1 1 x|GEOSEARCH k FROMLONLAT 1 1 BYRADIUS 1 m ANY
        GEOSEARCH k FROMLONLAT 1 1 COUNT|GEOSEARCH k FROMLONLAT 1 1 BYRADIUS 1 m COUNT 0
        GEOSEARCH k FROMLONLAT 1 1 BYRADIUS 1 m COUNT x|GEOSEARCH k FROMLONLAT 1 1 BYRADIUS 1 m COUNT -1 ANY
        GEOSEARCH k FROMLONLAT 1 1 BYRADIUS 1 m STOREDIST|GEOSEARCH k FROMLONLAT 1 1 BYRADIUS 1 m STORE d
        GEOSEARCH l FROMLONLAT 1 1 BYRADIUS 1 m|GEOSEARCH k FROMLONLAT 1 1
        GEOSEARCHSTORE d k FROMLONLAT 15 37 BYBOX 400 400 km STOREDIST|ZRANGE d 0 -1|TYPE d
        GEOSEARCHSTORE d k FROMLONLAT 15 37 BYBOX 400 400 km WITHDIST|GEOSEARCHSTORE d none FROMMEMBER a BYRADIUS 1 m
        EXISTS d|SET d text|GEOSEARCHSTORE d k FROMLONLAT 15 37 BYBOX 400 400 km|TYPE d
        GEOSEARCHSTORE d l FROMLONLAT 1 1|GEOSEARCHSTORE d k FROMLONLAT 1 1 BYRADIUS 0 m|EXISTS d
        GEOSEARCHSTORE d k FROMLONLAT 15 37 BYRADIUS 1 m STORE e|GEORADIUS k 15 37 200 km|GEORADIUS k 15 37 -1 km
        GEORADIUS k 15 37 x km|GEORADIUS k 15 37 1 x|GEORADIUS k 15 99 1 m|GEORADIUS k 15 37 200 km WITHDIST STORE d
        GEORADIUS k 15 37 200 km STORE|GEORADIUS k 15 37 200 km STORE d STOREDIST e|ZRANGE e 0 -1|EXISTS d
        GEORADIUS none 15 37 200 km|GEORADIUS none 15 37 200 km STORE e|EXISTS e|GEORADIUS l 1 1 1 m
        GEORADIUS_RO k 15 37 200 km STORE d|GEORADIUS_RO k 15 37 200 km FROMMEMBER a
        GEORADIUS k 15 37 200 km BYRADIUS 1 m|GEORADIUSBYMEMBER k Palermo 200 km|GEORADIUSBYMEMBER k none 200 km
        GEORADIUSBYMEMBER none x x x|GEORADIUSBYMEMBER none x x x STORE d|GEORADIUSBYMEMBER none x x x more
        GEORADIUSBYMEMBER k Palermo x km|GEORADIUSBYMEMBER k Palermo 200 km ANY
        GEORADIUSBYMEMBER k Palermo 200 km COUNT 1 ANY|GEORADIUSBYMEMBER_RO k|GEORADIUSBYMEMBER_RO k Catania 0 m
        GEORADIUSBYMEMBER_RO k Palermo 1 m STOREDIST d|GEORADIUSBYMEMBER l a 1 m
        COMMAND GETKEYSANDFLAGS GEORADIUS k 1 2 3 m STORE d
        COMMAND GETKEYSANDFLAGS GEORADIUS k 1 2 3 m STOREDIST d STORE e
        COMMAND GETKEYSANDFLAGS GEORADIUS k 1 2 3 m STORE|COMMAND GETKEYSANDFLAGS GEORADIUSBYMEMBER k m 2 m store d
        COMMAND GETKEYSANDFLAGS GEORADIUSBYMEMBER k m 2 m STORE storedist STOREDIST x
        COMMAND GETKEYS GEORADIUS k 1 2 3 m|COMMAND GETKEYSANDFLAGS GEOSEARCHSTORE d s FROMMEMBER a BYRADIUS 1 m
        COMMAND GETKEYSANDFLAGS GEOADD k 1 1 a
    """
    for line in lines.replace("\n", "|").split("|"):
        if words := line.split():
            compare(both, *words)


# --- effects -----------------------------------------------------------------------------------------------------


def test_an_addition_is_repeated_as_a_zadd_and_one_that_changes_nothing_is_not() -> None:
    engine = InProcess()
    engine.run("GEOADD", "k", "CH", "13.361389", "38.115556", "Palermo")
    engine.run("GEOADD", "k", "13.361389", "38.115556", "Palermo")
    assert engine.take_effects() == [(0, [b"ZADD", b"k", b"CH", b"3479099956230698", b"Palermo"])]


def test_a_search_is_an_effect_only_where_it_stores() -> None:
    engine = InProcess()
    engine.run("GEOADD", "k", "13.361389", "38.115556", "Palermo")
    engine.take_effects()
    engine.run("GEORADIUS", "k", 13, 38, 100, "km")
    engine.run("GEORADIUS", "k", 0, 0, 1, "km", "STORE", "d")
    assert engine.take_effects() == []
    engine.run("GEORADIUS", "k", 13, 38, 100, "km", "STORE", "d")
    engine.run("GEOSEARCHSTORE", "d", "k", "FROMLONLAT", 0, 0, "BYRADIUS", 1, "m")
    assert [effect[0] for _, effect in engine.take_effects()] == [b"GEORADIUS", b"GEOSEARCHSTORE"]
    assert engine.run("EXISTS", "d") == b":0\r\n"
