"""Places on the earth: members of a sorted set whose scores are their places (`headrace.core.geohash`).

GEOADD             is a ZADD, and this is its effect
GEOSEARCH          what is in a circle or a box; GEOSEARCHSTORE gives it to a key
GEORADIUS          the same in the older words, around a place; GEORADIUSBYMEMBER, around a member
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from headrace.commands.arguments import read_float
from headrace.commands.collections.sorted_sets import CH, NX, XX, add_scored
from headrace.commands.declaration.table import FIRST, FIRST_TWO, command
from headrace.commands.held import sorted_set_at, store_result
from headrace.commands.replies import reply_text
from headrace.core import geohash
from headrace.core.geohash import Place, SearchArea
from headrace.core.sorted_set import SortedSet
from headrace.engine.call import Call
from headrace.engine.command import Flag
from headrace.engine.errors import SYNTAX, CommandError

_UNITS: Final = {b"m": 1.0, b"km": 1000.0, b"ft": 0.3048, b"mi": 1609.34}
_ADD_OPTIONS: Final = {b"nx": NX, b"xx": XX, b"ch": CH}

_NO_UNIT: Final = b"ERR unsupported unit provided. please use M, KM, FT, MI"
_NO_MEMBER: Final = b"ERR could not decode requested zset member"

_WRITE: Final = Flag.WRITE | Flag.DENY_OOM


# --- arguments ---------------------------------------------------------------------------------------------------


def _read_place(call: Call, at: int) -> tuple[float, float]:
    """Read a longitude and a latitude that are on the map."""
    longitude, latitude = read_float(call.argv[at]), read_float(call.argv[at + 1])
    (west, east), (south, north) = geohash.LONGITUDES, geohash.LATITUDES
    if not (west <= longitude <= east and south <= latitude <= north):
        raise CommandError(b"ERR invalid longitude,latitude pair %f,%f" % (longitude, latitude))
    return longitude, latitude


def _read_unit(text: bytes) -> float:
    """Read a unit: how many metres it is."""
    metres = _UNITS.get(text.lower())
    if metres is None:
        raise CommandError(_NO_UNIT)
    return metres


# --- adding ------------------------------------------------------------------------------------------------------


@command(
    "geoadd key [NX | XX] [CH] longitude latitude member [longitude latitude member ...]",
    arity=-5,
    flags=_WRITE,
    keys=FIRST,
    since="3.2.0",
    group="geo",
)
def geoadd(call: Call) -> None:
    """Give members of a sorted set their places, and reply how many are new; with CH, also those that moved.

    NX only adds members, XX only moves them. Latitudes go up to 85.05112878 degrees, north and south.
    """
    options, at = 0, 2
    while at < call.argc and (option := _ADD_OPTIONS.get(call.argv[at].lower())) is not None:
        options |= option
        at += 1
    if (call.argc - at) % 3 or (options & NX and options & XX) or at == call.argc:
        raise CommandError(SYNTAX)
    scores = [geohash.encode(*_read_place(call, place)) for place in range(at, call.argc, 3)]
    members = call.argv[at + 2 :: 3]
    added, updated, _ = add_scored(call, options, list(zip(members, map(float, scores), strict=True)))
    if added or updated:
        pairs = [word for score, member in zip(scores, members, strict=True) for word in (b"%d" % score, member)]
        call.emit([b"ZADD", *call.argv[1:at], *pairs])
    call.reply.integer(added + updated if options & CH else added)


# --- looking -----------------------------------------------------------------------------------------------------


def _reply_coordinates(call: Call, longitude: float, latitude: float) -> None:
    """Reply the two numbers with all their digits, up to 17."""
    call.reply.array(2)
    for number in (longitude, latitude):
        text = (b"%.17f" % number).rstrip(b"0").removesuffix(b".")
        if call.reply.protocol == 3:
            call.reply.raw(b",%s\r\n" % text)
        else:
            call.reply.bulk(text)


@command("geopos key [member [member ...]]", arity=-2, flags=Flag.READ, keys=FIRST, since="3.2.0", group="geo")
def geopos(call: Call) -> None:
    """Reply longitude and latitude of members; nil for one that is none."""
    held = sorted_set_at(call, call.argv[1]) or SortedSet()
    call.reply.array(call.argc - 2)
    for member in call.argv[2:]:
        score = held.score(member)
        if score is None:
            call.reply.null_array()
        else:
            _reply_coordinates(call, *geohash.decode(score))


@command("geohash key [member [member ...]]", arity=-2, flags=Flag.READ, keys=FIRST, since="3.2.0", group="geo")
def geohash_(call: Call) -> None:
    """Reply the geohashes of members, texts of 11 letters that maps understand; nil for one that is none."""
    held = sorted_set_at(call, call.argv[1]) or SortedSet()
    call.reply.array(call.argc - 2)
    for member in call.argv[2:]:
        score = held.score(member)
        reply_text(call, None if score is None else geohash.standard_text(score))


@command("geodist key member1 member2 [M|KM|FT|MI]", arity=-4, flags=Flag.READ, keys=FIRST, since="3.2.0", group="geo")
def geodist(call: Call) -> None:
    """Reply how far two members are from each other, in metres or another unit; nil where one is none."""
    unit = _read_unit(call.argv[4]) if call.argc == 5 else 1.0
    if call.argc > 5:
        raise CommandError(SYNTAX)
    held = sorted_set_at(call, call.argv[1]) or SortedSet()
    first, second = (held.score(member) for member in call.argv[2:4])
    if first is None or second is None:
        call.reply.null()
    else:
        call.reply.bulk(b"%.4f" % (geohash.distance_between(first, second) / unit))


# --- what is searched --------------------------------------------------------------------------------------------


class _Form(NamedTuple):
    """Which of the commands asks."""

    options_at: int
    is_search: bool = False  # GEOSEARCH or GEOSEARCHSTORE
    may_store: bool = False  # STORE and STOREDIST name a key


@dataclass(frozen=True)
class _Request:
    """What is asked for; `unit` and lengths are in metres."""

    centre: tuple[float, float] | None = None
    unit: float = 1.0
    radius: float | None = None
    box: tuple[float, float] | None = None
    order: bytes = b""  # asc or desc
    count: int = 0
    any: bool = False
    shown: frozenset[bytes] = frozenset()  # withdist, withhash, withcoord
    store: bytes | None = None
    stores_distances: bool = False

    def area(self) -> SearchArea:
        longitude, latitude = self.centre or (0.0, 0.0)
        if self.box is not None:
            return SearchArea.box(longitude, latitude, self.box[0] * self.unit, self.box[1] * self.unit)
        return SearchArea.circle(longitude, latitude, (self.radius or 0.0) * self.unit)


def _read_circle(call: Call, at: int, request: _Request) -> _Request:
    radius = read_float(call.argv[at], b"ERR need numeric radius")
    if radius < 0:
        raise CommandError(b"ERR radius cannot be negative")
    return replace(request, radius=radius, unit=_read_unit(call.argv[at + 1]))


def _read_box(call: Call, at: int, request: _Request) -> _Request:
    width = read_float(call.argv[at], b"ERR need numeric width")
    height = read_float(call.argv[at + 1], b"ERR need numeric height")
    if width < 0 or height < 0:
        raise CommandError(b"ERR height or width cannot be negative")
    return replace(request, box=(width, height), unit=_read_unit(call.argv[at + 2]))


def _place_of_member(held: SortedSet | None, member: bytes) -> tuple[float, float]:
    """Find the place of a member; any, where there is no key and thus nothing to find."""
    if held is None:
        return 0.0, 0.0
    score = held.score(member)
    if score is None:
        raise CommandError(_NO_MEMBER)
    return geohash.decode(score)


def _read_options(call: Call, held: SortedSet | None, form: _Form, request: _Request) -> _Request:
    """Read the options, in any order; of two that contradict each other the last counts, or is refused."""
    at, from_member = form.options_at, False
    while at < call.argc:
        word, behind = call.argv[at].lower(), call.argc - at - 1
        if word in (b"withdist", b"withhash", b"withcoord"):
            request = replace(request, shown=request.shown | {word})
        elif word == b"any":
            request = replace(request, any=True)
        elif word in (b"asc", b"desc"):
            request = replace(request, order=word)
        elif word == b"count" and behind:
            request = replace(request, count=_read_count(call, at + 1))
            at += 1
        elif word in (b"store", b"storedist") and form.may_store and behind:
            request = replace(request, store=call.argv[at + 1], stores_distances=word == b"storedist")
            at += 1
        elif not form.is_search:
            raise CommandError(SYNTAX)
        elif word == b"storedist" and request.store is not None:
            request = replace(request, stores_distances=True)
        elif word == b"frommember" and behind and (request.centre is None or from_member):
            request, from_member = replace(request, centre=_place_of_member(held, call.argv[at + 1])), True
            at += 1
        elif word == b"fromlonlat" and behind > 1 and not from_member:
            request = replace(request, centre=_read_place(call, at + 1))
            at += 2
        elif word == b"byradius" and behind > 1 and request.box is None:
            request = _read_circle(call, at + 1, request)
            at += 2
        elif word == b"bybox" and behind > 2 and request.radius is None:
            request = _read_box(call, at + 1, request)
            at += 3
        else:
            raise CommandError(SYNTAX)
        at += 1
    return request


def _read_count(call: Call, at: int) -> int:
    count = call.integer(at)
    if count <= 0:
        raise CommandError(b"ERR COUNT must be > 0")
    return count


def _check(call: Call, form: _Form, request: _Request) -> None:
    """Refuse what does not go together."""
    if request.store is not None and request.shown:
        name = b"GEOSEARCHSTORE" if form.is_search else b"STORE option in GEORADIUS"
        raise CommandError(b"ERR %s is not compatible with WITHDIST, WITHHASH and WITHCOORD options" % name)
    if form.is_search and request.centre is None:
        raise CommandError(b"ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for " + call.argv[0])
    if form.is_search and request.radius is None and request.box is None:
        raise CommandError(b"ERR exactly one of BYRADIUS and BYBOX can be specified for " + call.argv[0])
    if request.any and not request.count:
        raise CommandError(b"ERR the ANY argument requires COUNT argument")


# --- searching ---------------------------------------------------------------------------------------------------


def _search(call: Call, held: SortedSet | None, form: _Form, request: _Request) -> None:
    """Read the options, find the places, and reply or store them."""
    request = _read_options(call, held, form, request)
    _check(call, form, request)
    found = _found(held, request) if held is not None else []
    if request.store is None:
        _reply_found(call, request, found)
        return
    scored = SortedSet.from_pairs(
        (place.member, place.distance / request.unit if request.stores_distances else place.score) for place in found
    )
    store_result(call, request.store, scored, b"geosearchstore" if form.is_search else b"georadiusstore")
    call.changed(max(len(scored) - 1, 0))


def _found(held: SortedSet, request: _Request) -> list[Place]:
    """Find the places; a COUNT is of the nearest, unless ANY will do."""
    area, found = request.area(), list[Place]()
    most = request.count if request.any else 0
    for low, high in area.score_ranges():
        if most and len(found) >= most:
            break
        area.collect(held.slice(*held.by_score(low, high, below=True)), found, most)
    order = request.order or (b"asc" if request.count and not request.any else b"")
    if order:
        sign = -1 if order == b"desc" else 1
        found.sort(key=lambda place: sign * place.distance)
    return found[: request.count] if request.count else found


def _reply_found(call: Call, request: _Request, found: list[Place]) -> None:
    call.reply.array(len(found))
    for place in found:
        if request.shown:
            call.reply.array(1 + len(request.shown))
        call.reply.bulk(place.member)
        if b"withdist" in request.shown:
            call.reply.bulk(b"%.4f" % (place.distance / request.unit))
        if b"withhash" in request.shown:
            call.reply.integer(int(place.score))
        if b"withcoord" in request.shown:
            _reply_coordinates(call, place.longitude, place.latitude)


_AREA: Final = (
    "<FROMMEMBER member | FROMLONLAT longitude latitude> "
    "<BYRADIUS radius M|KM|FT|MI | BYBOX width height M|KM|FT|MI> [ASC|DESC] [COUNT count [ANY]]"
)


@command(
    f"geosearch key {_AREA} [WITHCOORD] [WITHDIST] [WITHHASH]",
    arity=-7,
    flags=Flag.READ,
    keys=FIRST,
    since="6.2.0",
    group="geo",
)
def geosearch(call: Call) -> None:
    """Reply the members that are in a circle or in a box around a place or a member.

    ASC replies the nearest first, DESC the farthest. COUNT replies so many of the nearest; with ANY, those that are
    found first. WITHDIST, WITHHASH and WITHCOORD reply distance, score and coordinates, too.
    """
    _search(call, sorted_set_at(call, call.argv[1]), _Form(2, is_search=True), _Request())


@command(
    f"geosearchstore destination source {_AREA} [STOREDIST]",
    arity=-8,
    flags=_WRITE,
    keys=FIRST_TWO,
    since="6.2.0",
    group="geo",
)
def geosearchstore(call: Call) -> None:
    """Give a key what GEOSEARCH finds, and reply how many; scores are places or, with STOREDIST, distances."""
    held = sorted_set_at(call, call.argv[2])
    _search(call, held, _Form(3, is_search=True), _Request(store=call.argv[1]))


# --- the older words ---------------------------------------------------------------------------------------------


def _around_place(call: Call, *, may_store: bool) -> None:
    held = sorted_set_at(call, call.argv[1])
    request = _read_circle(call, 4, _Request(centre=_read_place(call, 2)))
    _search(call, held, _Form(6, may_store=may_store), request)


def _around_member(call: Call, *, may_store: bool) -> None:
    held = sorted_set_at(call, call.argv[1])
    request = _Request()
    if held is not None:
        request = _read_circle(call, 3, _Request(centre=_place_of_member(held, call.argv[2])))
    _search(call, held, _Form(5, may_store=may_store), request)


def _stored_keys(first: int) -> Callable[[list[bytes]], list[bytes]]:
    """Make what finds the keys of a request: the one that is searched, and those behind STORE and STOREDIST."""

    def find(argv: list[bytes]) -> list[bytes]:
        words = [word.lower() for word in argv]
        places = [words.index(name, first) + 1 for name in (b"store", b"storedist") if name in words[first:-1]]
        return [argv[1], *(argv[place] for place in places)]

    return find


_SHOWN: Final = "[WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC|DESC]"
_STORED: Final = "[STORE key] [STOREDIST key]"


@command(
    f"georadius key longitude latitude radius M|KM|FT|MI {_SHOWN} {_STORED}",
    arity=-6,
    flags=_WRITE | Flag.MOVABLE_KEYS,
    keys=FIRST,
    find_keys=_stored_keys(6),
    since="3.2.0",
    group="geo",
)
def georadius(call: Call) -> None:
    """Reply the members that are in a circle around a place; or give them to a key, and reply how many.

    STORE gives the key the scores that are places, STOREDIST the distances.
    """
    _around_place(call, may_store=True)


@command(
    f"georadius_ro key longitude latitude radius M|KM|FT|MI {_SHOWN}",
    arity=-6,
    flags=Flag.READ,
    keys=FIRST,
    since="3.2.10",
    group="geo",
)
def georadius_ro(call: Call) -> None:
    """Reply what GEORADIUS replies."""
    _around_place(call, may_store=False)


@command(
    f"georadiusbymember key member radius M|KM|FT|MI {_SHOWN} {_STORED}",
    arity=-5,
    flags=_WRITE | Flag.MOVABLE_KEYS,
    keys=FIRST,
    find_keys=_stored_keys(5),
    since="3.2.0",
    group="geo",
)
def georadiusbymember(call: Call) -> None:
    """Reply the members that are in a circle around one of them; or give them to a key, and reply how many."""
    _around_member(call, may_store=True)


@command(
    f"georadiusbymember_ro key member radius M|KM|FT|MI {_SHOWN}",
    arity=-5,
    flags=Flag.READ,
    keys=FIRST,
    since="3.2.10",
    group="geo",
)
def georadiusbymember_ro(call: Call) -> None:
    """Reply what GEORADIUSBYMEMBER replies."""
    _around_member(call, may_store=False)
