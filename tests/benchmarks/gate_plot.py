"""The gate's benchmark as one picture: SVG written by hand, which follows the reader's light or dark mode."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape

from msgspec import Struct

from skillopt_sleep.gate.rule import exact_error
from tests.benchmarks.gate_bounds import CellResult
from tests.benchmarks.gate_cells import USUAL_SIZE, Cell, Judge, Spread
from tests.benchmarks.gate_nights import AS_RUN, NOISY, NightsFigures

WIDTH, HEIGHT = 1140, 440
TOP, BOTTOM = 96, 372
"""Where the panels begin and end."""
PANEL = 236
"""How wide each is."""
LEFT = (52, 430, 840)
"""Where each begins; beside the first two stand the names of their lines."""
LABEL = 15
"""The least distance between two names, in pixels."""
USUAL_BASE = 0.5

STYLES = {"paired 6": "p6", "paired 8": "p8", "strict": "st", "mean + 1 se": "se"}
"""The class of each rule's ink."""

LIGHT = {
    "paper": "#ffffff",
    "ink": "#1c2128",
    "soft": "#59636e",
    "grid": "#e3e7eb",
    "p6": "#0969da",
    "p8": "#0a7f6b",
    "st": "#c9510c",
    "se": "#8250df",
}
DARK = {
    "paper": "#0d1117",
    "ink": "#e6edf3",
    "soft": "#9198a1",
    "grid": "#262c36",
    "p6": "#58a6ff",
    "p8": "#3fc9a5",
    "st": "#ff9a56",
    "se": "#c297ff",
}
SHAPES = """
text { font: 12px system-ui, "Segoe UI", "Helvetica Neue", Arial, sans-serif; }
.title { font-size: 19px; font-weight: 650; }
.head { font-size: 14px; font-weight: 600; }
.name { font-weight: 600; }
.end { text-anchor: end; } .mid { text-anchor: middle; }
.bound { stroke-dasharray: 3 3; }
.line { fill: none; stroke-width: 2.25; stroke-linejoin: round; stroke-linecap: round; }
.dot { stroke-width: 1.5; }
"""


def _style() -> str:
    """The style sheet: shapes, and the colours of either mode without variables, which few renderers know."""
    return f"{SHAPES}{_colours(LIGHT)}@media (prefers-color-scheme: dark) {{\n{_colours(DARK)}}}\n"


def _colours(of: Mapping[str, str]) -> str:
    rules = [
        f".paper {{ fill: {of['paper']}; }}",
        f"text {{ fill: {of['soft']}; }}",
        f".title, .head {{ fill: {of['ink']}; }}",
        f".grid {{ stroke: {of['grid']}; }}",
        f".axis, .bound {{ stroke: {of['soft']}; }}",
        f".dot {{ stroke: {of['paper']}; }}",
    ]
    for style in STYLES.values():
        rules += [f".line.{style} {{ stroke: {of[style]}; }}", f".dot.{style}, .name.{style} {{ fill: {of[style]}; }}"]
    return "".join(f"{rule}\n" for rule in rules)


class _Panel(Struct, frozen=True, kw_only=True):
    """A frame with its scales. Values are mapped linearly; ``ticks`` say where something is written."""

    left: int
    x: tuple[float, float]
    y: tuple[float, float]

    def at(self, x: float, y: float) -> tuple[float, float]:
        """The place of a point, in pixels."""
        across = (x - self.x[0]) / (self.x[1] - self.x[0])
        up = (y - self.y[0]) / (self.y[1] - self.y[0])
        return round(self.left + PANEL * across, 1), round(BOTTOM - (BOTTOM - TOP) * up, 1)

    def frame(self, head: str, under: str, x_ticks: Mapping[float, str], y_ticks: Mapping[float, str]) -> Iterator[str]:
        """Head, grid, ticks, and what the horizontal axis means."""
        yield _text(self.left, TOP - 18, head, "head")
        for value, name in y_ticks.items():
            _, y = self.at(self.x[0], value)
            kind = "axis" if value == self.y[0] else "grid"
            yield f'<line class="{kind}" x1="{self.left}" y1="{y}" x2="{self.left + PANEL}" y2="{y}"/>'
            yield _text(self.left - 8, y + 4, name, "end")
        for value, name in x_ticks.items():
            x, _ = self.at(value, self.y[0])
            yield _text(x, BOTTOM + 20, name, "mid")
        yield _text(self.left + PANEL / 2, BOTTOM + 42, under, "mid")

    def lines(self, rules: Mapping[str, Sequence[tuple[float, float]]]) -> Iterator[str]:
        """A line with its dots for each rule, and the names at their right ends, pushed apart."""
        ends: dict[str, float] = {}
        for rule, points in rules.items():
            style = STYLES[rule]
            places = [self.at(*point) for point in points]
            path = " ".join(f"{x},{y}" for x, y in places)
            yield f'<polyline class="line {style}" points="{path}"/>'
            yield from (f'<circle class="dot {style}" cx="{x}" cy="{y}" r="4"/>' for x, y in places)
            ends[rule] = places[-1][1]
        for rule, y in _apart(ends).items():
            yield _text(self.left + PANEL + 10, y + 4, rule, f"name {STYLES[rule]}")


def drawing(cells: Sequence[CellResult], months: Sequence[NightsFigures]) -> str:
    """The whole picture: useless edits by val tasks, edits by what they are worth, and a month of each gate."""
    body = [
        *_useless(cells),
        *_power(cells),
        *_months([row for row in months if row.gate.startswith(NOISY)]),
    ]
    title = "How often a gate is wrong, and what it lets through"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{title}">',
            f"<style>{_style()}</style>",
            f'<rect width="{WIDTH}" height="{HEIGHT}" rx="10" class="paper"/>',
            _text(LEFT[0] - 24, 38, title, "title"),
            _text(WIDTH - 28, 36, "made-up edits of known effect: python -m tests.benchmarks gate", "end"),
            *body,
            "</svg>\n",
        ]
    )


def _useless(cells: Sequence[CellResult]) -> Iterator[str]:
    """A useless edit, by the number of val tasks."""
    found = _series(cells, lambda cell: cell.effect == 0 and _plain(cell), lambda cell: cell.tasks)
    sizes = sorted({x for points in found.values() for x, _ in points})
    places = {size: float(number) for number, size in enumerate(sizes)}
    panel = _Panel(left=LEFT[0], x=(-0.25, len(sizes) - 0.75), y=(0, 0.6))
    yield from panel.frame(
        "A useless edit is accepted",
        f"validation tasks (pass or fail, base rate {USUAL_BASE})",
        {place: f"{size:g}" for size, place in places.items()},
        {value / 10: f"{10 * value} %" for value in range(0, 7, 2)},
    )
    _, y = panel.at(0, exact_error(6))
    yield f'<line class="bound" x1="{panel.left}" y1="{y}" x2="{panel.left + PANEL}" y2="{y}"/>'
    yield _text(panel.left + PANEL, y - 7, f"promised: at most {100 * exact_error(6):.2f} %", "end")
    yield from panel.lines({rule: [(places[x], y) for x, y in points] for rule, points in found.items()})


def _power(cells: Sequence[CellResult]) -> Iterator[str]:
    """An edit by what it is worth, on the usual number of val tasks."""
    found = _series(cells, lambda cell: cell.tasks == USUAL_SIZE and _plain(cell), lambda cell: cell.effect)
    worths = sorted({x for points in found.values() for x, _ in points})
    panel = _Panel(left=LEFT[1], x=(min(worths) - 0.03, max(worths) + 0.03), y=(0, 1))
    yield from panel.frame(
        "An edit is accepted",
        f"what it adds to the pass rate ({USUAL_SIZE} tasks, base rate {USUAL_BASE})",
        {worth: f"{worth:+.2g}".replace("0.", ".") if worth else "0" for worth in worths},
        {value / 4: f"{25 * value} %" for value in range(5)},
    )
    yield from panel.lines(found)


def _months(rows: Sequence[NightsFigures]) -> Iterator[str]:
    """Where thirty nights lead: few wrong accepts and much gained is up and left."""
    panel = _Panel(left=LEFT[2], x=(0, 0.75), y=(0, 0.5))
    yield from panel.frame(
        "What 30 nights at 176 calls gain",
        "share of their accepts that was wrong (noisy judge)",
        {value / 4: f"{25 * value} %" for value in range(4)},
        {value / 10: f"+.{value}" if value else "0" for value in range(6)},
    )
    named: dict[str, tuple[str, tuple[float, float]]] = {}
    for row in rows:
        name = row.gate.removeprefix(NOISY)
        style = next(style for rule, style in STYLES.items() if name.startswith(rule))
        place = panel.at(row.wrong_drawn.value, row.gain.value)
        if name in SHOWN or name in AS_RUN:
            yield f'<circle class="dot {style}" cx="{place[0]}" cy="{place[1]}" r="5"/>'
        if name in SHOWN:
            named[SHOWN[name]] = style, place
    for name, (style, (x, y)) in named.items():
        across, down = NUDGED.get(name, (10, 4))
        yield _text(x + across, y + down, name, f"name {style}")
    run = [row for row in rows if row.gate.removeprefix(NOISY) in AS_RUN]
    x, y = panel.at(min(row.wrong_drawn.value for row in run), min(row.gain.value for row in run))
    yield _text(x, y + 22, "strict, as it is run", "name st mid")


SHOWN = {
    "paired 6": "paired 6",
    "paired 8": "paired 8",
    "strict, 40 tasks, calls spent": "strict, all calls",
    "mean + 1 se, 40 tasks, calls spent": "mean + 1 se, all calls",
}
"""The months that get a name of their own."""
NUDGED = {"paired 6": (-8, 20), "paired 8": (-8, 20), "mean + 1 se, all calls": (10, -4)}
"""How far from its dot a name is written, where it would cover another."""


def _plain(cell: Cell) -> bool:
    """Whether nothing is lost and every task gains alike."""
    losses = (cell.lost_baseline, cell.lost_candidate, cell.own_baseline, cell.own_candidate)
    return cell.judge is Judge.BINARY and cell.base == USUAL_BASE and cell.spread is Spread.EVEN and not any(losses)


def _series(
    cells: Sequence[CellResult], wanted: Callable[[Cell], bool], place: Callable[[Cell], float]
) -> dict[str, list[tuple[float, float]]]:
    """For each rule what it ever accepts of the wanted cells, exactly where that is known, in order of ``place``."""
    found: dict[str, list[tuple[float, float]]] = {rule: [] for rule in STYLES}
    for result in sorted((each for each in cells if wanted(each.cell)), key=lambda each: place(each.cell)):
        figures = {each.rule: each for each in (*result.figures, *result.exact)}
        for rule, points in found.items():
            points.append((place(result.cell), figures[rule].life.value))
    return found


def _apart(ends: Mapping[str, float]) -> dict[str, float]:
    """Heights of names, in their order from the top, none nearer to the next than ``LABEL``."""
    placed: dict[str, float] = {}
    for rule, y in sorted(ends.items(), key=lambda each: each[1]):
        placed[rule] = max(y, max(placed.values(), default=y - LABEL) + LABEL)
    over = max(0.0, max(placed.values()) - BOTTOM)
    return {rule: y - over for rule, y in placed.items()} if over else placed


def _text(x: float, y: float, words: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x:g}" y="{y:g}">{escape(words)}</text>'
