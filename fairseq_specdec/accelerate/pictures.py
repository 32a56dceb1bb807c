"""Pictures of a report as SVG that needs no other file: bars, and a line over an axis."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

WIDTH, LINE = 560, 24  # units of a picture, and of one bar's line
LEFT, RIGHT = 210, 70  # for names, and for figures behind bars
HEIGHT, MARGIN = 200, 44  # of a line's picture


def _svg(height: int, title: str, parts: Sequence[str]) -> str:
    """A picture as wide as its place, with its title for those who do not see it."""
    named = escape(title, quote=True)
    return (
        f'<figure><svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{named}">'
        f"{''.join(parts)}</svg><figcaption>{escape(title)}</figcaption></figure>"
    )


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def bars(title: str, values: Sequence[tuple[str, float]], form: str) -> str:
    """A bar for each named value, from 0, with the value behind it. ``title``: what is shown, with
    its unit. ``form``: of a value, as ``"{:.1f} ms"``."""
    longest = max(value for _, value in values) or 1.0
    parts: list[str] = []
    for i, (name, value) in enumerate(values):
        y, size = i * LINE, (WIDTH - LEFT - RIGHT) * value / longest
        parts.append(_text(LEFT - 8, y + 16, name, "end"))
        parts.append(f'<rect x="{LEFT}" y="{y + 4}" width="{size:.1f}" height="{LINE - 8}"/>')
        parts.append(_text(LEFT + size + 6, y + 16, form.format(value)))
    return _svg(LINE * len(values), title, parts)


def line(title: str, points: Sequence[tuple[float, float]], xlabel: str, ylabel: str) -> str:
    """A line through points, on axes whose ends are the least and the greatest values."""
    (left, right), (low, high) = ((min(v), max(v)) for v in zip(*points))
    wide, tall = WIDTH - 2 * MARGIN, HEIGHT - 2 * MARGIN

    def place(x: float, y: float) -> tuple[float, float]:
        across, up = (x - left) / (right - left or 1), (y - low) / (high - low or 1)
        return MARGIN + wide * across, HEIGHT - MARGIN - tall * up

    drawn = " ".join("{:.1f},{:.1f}".format(*place(*point)) for point in points)
    bottom = HEIGHT - MARGIN
    parts = [
        f'<path d="M{MARGIN} {MARGIN}V{bottom}H{WIDTH - MARGIN}"/>',
        f'<polyline points="{drawn}"/>',
        *('<circle cx="{:.1f}" cy="{:.1f}" r="3"/>'.format(*place(*point)) for point in points),
        _text(MARGIN, bottom + 16, f"{left:g}", "middle"),
        _text(WIDTH - MARGIN, bottom + 16, f"{right:g}", "middle"),
        _text(WIDTH / 2, bottom + 34, xlabel, "middle"),
        _text(MARGIN - 6, bottom, f"{low:.2f}", "end"),
        _text(MARGIN - 6, MARGIN + 4, f"{high:.2f}", "end"),
        _text(MARGIN, MARGIN - 14, ylabel),
    ]
    return _svg(HEIGHT, title, parts)
