"""The page: tiles, rates, sizes, streams, fields, groups, in the order in which somebody asks."""

from datetime import UTC, datetime
from html import escape
from typing import Final

import headrace
from headrace.pipelines.report.groups import GroupMeasure
from headrace.pipelines.report.measures import FieldMeasure, Measures
from headrace.pipelines.report.shapes import amount, bars, byte_size, columns, duration, legend, moment, stacked_steps
from headrace.pipelines.report.style import STYLE

_OTHERS: Final = "all others"
_X_LABELS: Final = 5
_LATENCY_EDGES_MS: Final = (1, 10, 100, 1000, 10_000, 60_000, 600_000, 3_600_000, 86_400_000)
_MOST_CONSUMERS: Final = 8
_MOST_DELIVERIES: Final = 5


def render_page(title: str, server: str, measures: Measures, groups: list[GroupMeasure], made_ms: int) -> str:
    """Return the whole page."""
    made = f"{datetime.fromtimestamp(made_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    parts = [_tiles(measures, groups)]
    if measures.entries:
        parts += [_rates(measures), f'<div class="two">{_sizes(measures)}{_keys(measures)}</div>', _fields(measures)]
    else:
        parts.append('<section><p class="nothing">There are no entries in this range.</p></section>')
    parts += [_group(group) for group in groups]
    if not groups:
        parts.append('<section><h2>Groups</h2><p class="nothing">No consumer group reads these streams.</p></section>')
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="color-scheme" content="light dark"><title>{escape(title)}</title><style>{STYLE}</style></head>'
        f"<body><main><header><h1>{escape(title)}</h1><p>{escape(server)} · {made}</p></header>"
        f"{''.join(parts)}<footer>headrace {headrace.__version__} · times are UTC, from the IDs of entries; sizes are "
        "those of field names and values</footer></main></body></html>\n"
    )


def _tiles(measures: Measures, groups: list[GroupMeasure]) -> str:
    span_ms = measures.buckets * measures.width_ms
    by_bucket: dict[int, int] = {}
    for cell in measures.cells:
        by_bucket[cell.bucket] = by_bucket.get(cell.bucket, 0) + cell.entries
    peak = max(by_bucket.values(), default=0) * 1000 / measures.width_ms
    tiles = [
        (amount(measures.entries), "entries"),
        (amount(measures.streams), "stream" if measures.streams == 1 else "streams"),
        (byte_size(measures.bytes), "of fields"),
    ]
    if measures.entries:
        tiles += [
            (f"{amount(measures.entries * 1000 / span_ms)}/s", f"on average over {duration(span_ms)}"),
            (f"{amount(peak)}/s", f"at most, within {duration(measures.width_ms)}"),
        ]
    if groups:
        tiles.append((amount(sum(group.lag for group in groups)), "waiting for groups"))
        tiles.append((amount(sum(group.pending for group in groups)), "not acknowledged"))
    cells = (f"<div><b>{escape(number)}</b><span>{escape(what)}</span></div>" for number, what in tiles)
    return f'<div class="tiles">{"".join(cells)}</div>'


def _rates(measures: Measures) -> str:
    colours = {name: _colour(place, name) for place, name in enumerate(measures.series)}
    counts = {name: [0.0] * measures.buckets for name in measures.series}
    size = [0] * measures.buckets
    for cell in measures.cells:
        if 0 <= cell.bucket < measures.buckets:
            counts.setdefault(cell.series, [0.0] * measures.buckets)[cell.bucket] += (
                cell.entries * 1000 / measures.width_ms
            )
            size[cell.bucket] += cell.bytes
    span_ms = measures.buckets * measures.width_ms
    starts = [measures.start_ms + place * measures.width_ms for place in range(measures.buckets)]
    totals = [sum(values[place] for values in counts.values()) for place in range(measures.buckets)]
    titles = [
        f"{moment(start, min(span_ms, 60_000))} — {amount(total)}/s, {byte_size(bytes_ * 1000 / measures.width_ms)}/s"
        for start, total, bytes_ in zip(starts, totals, size, strict=True)
    ]
    step = max(1, (measures.buckets - 1) / (_X_LABELS - 1))
    marks = sorted({round(place * step) for place in range(_X_LABELS) if round(place * step) < measures.buckets})
    labels = [moment(starts[place], span_ms) for place in marks]
    layers = [(colours.get(name, "var(--rest)"), values) for name, values in counts.items()]
    names = [(colours[name], name or _OTHERS) for name in measures.series]
    note = legend(names) if len(names) > 1 else ""
    unit = f"entries a second, in steps of {duration(measures.width_ms)}"
    return f"<section><h2>Entries over time</h2>{note}{stacked_steps(layers, titles, labels, unit)}</section>"


def _colour(place: int, name: str) -> str:
    return f"var(--s{place})" if name else "var(--rest)"


def _sizes(measures: Measures) -> str:
    counts: dict[int, int] = {}
    for cell in measures.cells:
        counts[cell.size_bits] = counts.get(cell.size_bits, 0) + cell.entries
    least, most = min(counts), max(counts)
    places = list(range(least, most + 1))
    values = [counts.get(bits, 0) for bits in places]
    titles = [
        f"{byte_size(2 ** (bits - 1))} to {byte_size(2**bits - 1)}: {amount(count)} entries"
        for bits, count in zip(places, values, strict=True)
    ]
    every = -(-len(places) // _X_LABELS)
    labels = [byte_size(2 ** (bits - 1)) if (bits - least) % every == 0 else "" for bits in places]
    mean = byte_size(measures.bytes / measures.entries)
    return (
        f"<section><h2>Sizes of entries</h2><p>{mean} on average, of names and values</p>"
        f"{columns(values, titles, labels, 'var(--s0)')}</section>"
    )


def _keys(measures: Measures) -> str:
    rows = [(key.key, key.entries, f"{amount(key.entries)} · {byte_size(key.bytes)}") for key in measures.keys]
    more = measures.streams - len(rows)
    note = f"<p>the first {len(rows)} of {measures.streams:,}</p>" if more > 0 else ""
    return f"<section><h2>Hot keys</h2>{note}{bars(rows)}</section>"


def _fields(measures: Measures) -> str:
    rows = "".join(_field_row(each, measures.entries) for each in measures.fields)
    return (
        '<section><h2>Fields</h2><div class="wide"><table><thead><tr><th>field</th><th>in entries</th><th>type</th>'
        "<th class=n>distinct</th><th class=n>bytes</th><th>values</th></tr></thead>"
        f"<tbody>{rows}</tbody></table></div></section>"
    )


def _field_row(measure: FieldMeasure, entries: int) -> str:
    share = min(1.0, measure.entries / entries)
    percent = "100 %" if measure.entries >= entries else f"{100 * share:.1f} %"
    kinds = "".join(
        f'<span class="kind">{escape(kind)}{"" if part > 0.9995 else f" {100 * part:.1f} %"}</span>'
        for kind, part in measure.kinds.items()
    )
    if measure.top:
        values = " ".join(
            f'<span class="chip">{escape(value) or "(empty)"}<b>{100 * count / measure.entries:.0f} %</b></span>'
            for value, count in measure.top
        )
    elif measure.least is not None and measure.greatest is not None:
        values = f"{measure.least:g} … {measure.greatest:g}"
    else:
        values = ""
    return (
        f"<tr><th>{escape(measure.name)}</th>"
        f'<td><span class="track"><i style="width:{100 * share:.1f}%"></i></span> {percent}</td><td>{kinds}</td>'
        f"<td class=n>{amount(measure.distinct)}</td><td class=n>{amount(measure.mean_bytes)}</td>"
        f"<td>{values}</td></tr>"
    )


def _group(group: GroupMeasure) -> str:
    lag = amount(group.lag) if group.lag_known else f"{amount(group.lag)}+"
    tiles = [
        (lag, "waiting to be delivered"),
        (duration(group.behind_ms), "behind the last entry"),
        (amount(group.pending), "delivered, not acknowledged"),
        (amount(group.redelivered), "of them more than once"),
        (amount(len(group.consumers)), "consumer" if len(group.consumers) == 1 else "consumers"),
    ]
    cells = "".join(f"<div><b>{escape(number)}</b><span>{escape(what)}</span></div>" for number, what in tiles)
    parts = []
    if group.latencies_ms:
        parts.append(_times("From append to the last delivery", group.latencies_ms, "var(--s2)"))
        parts.append(_times("Since the last delivery, not acknowledged", group.waiting_ms, "var(--s1)"))
        parts.append(_deliveries(group))
    if group.consumers:
        parts.append(_consumers(group))
    if group.streams > 1:
        worst = sorted(group.worst, key=lambda each: -each[1])[:_MOST_CONSUMERS]
        rows = [(name, float(count), amount(count)) for name, count in worst if count]
        if rows:
            parts.append(f"<div><h3>Streams with the most to do</h3>{bars(rows)}</div>")
    return (
        f'<section><h2>Group <code>{escape(group.name)}</code></h2><div class="tiles inner">{cells}</div>'
        f'<div class="two">{"".join(parts)}</div></section>'
    )


def _times(title: str, times_ms: list[int], colour: str) -> str:
    """Draw times in steps that a person has words for."""
    edges = _LATENCY_EDGES_MS
    counts = [0] * (len(edges) + 1)
    for each in times_ms:
        counts[sum(each >= edge for edge in edges)] += 1
    names = [f"< {duration(edges[0])}", *(f"≥ {duration(edge)}" for edge in edges)]
    first = next(place for place, count in enumerate(counts) if count)
    last = len(counts) - next(place for place, count in enumerate(reversed(counts)) if count)
    ordered = sorted(times_ms)
    middle, late = ordered[len(ordered) // 2], ordered[min(len(ordered) - 1, len(ordered) * 95 // 100)]
    titles = [f"{names[place]}: {amount(counts[place])} entries" for place in range(first, last)]
    return (
        f"<div><h3>{escape(title)}</h3><p>half within {duration(middle)}, 95 % within {duration(late)}</p>"
        f"{columns(counts[first:last], titles, names[first:last], colour)}</div>"
    )


def _deliveries(group: GroupMeasure) -> str:
    counts: dict[int, int] = {}
    for each in group.deliveries:
        place = min(each, _MOST_DELIVERIES)
        counts[place] = counts.get(place, 0) + 1
    words = {1: "once", 2: "twice", _MOST_DELIVERIES: f"{_MOST_DELIVERIES} times or more"}
    rows = [
        (words.get(place, f"{place} times"), float(counts.get(place, 0)), amount(counts.get(place, 0)))
        for place in range(1, max(counts) + 1)
    ]
    return f"<div><h3>How often delivered</h3>{bars(rows, 'var(--s5)')}</div>"


def _consumers(group: GroupMeasure) -> str:
    ordered = sorted(group.consumers.values(), key=lambda each: (-each.pending, each.name))[:_MOST_CONSUMERS]
    rows = [
        (each.name, float(each.pending), f"{amount(each.pending)} pending · idle {duration(each.idle_ms or 0)}")
        for each in ordered
    ]
    more = len(group.consumers) - len(rows)
    note = f"<p>and {more} more</p>" if more > 0 else ""
    return f"<div><h3>Consumers</h3>{bars(rows, 'var(--s3)')}{note}</div>"
