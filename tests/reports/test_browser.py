"""The pages in a real Chromium: without a violation that axe-core finds, without a request, small and quickly made.

    AXE_CORE=/path/to/axe.min.js python -m pytest --slow tests/reports/test_browser.py

With SCREENSHOTS=FOLDER every page is also drawn, wide and narrow, light and dark.
"""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from skillopt_sleep.reports.page import render_index, render_page
from skillopt_sleep.reports.view import describe_night
from tests.reports.samples import GOES_ON, LOGGED_OUT, PAIRED, SAMPLES
from tests.reports.test_page import history, place

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
AXE = os.environ.get("AXE_CORE", "")
IS_READY = bool(CHROMIUM and AXE and Path(AXE).is_file())
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
SCREENS = {"wide": 1440, "narrow": 390}

pytestmark = pytest.mark.slow

RUN = """
<script>AXE</script><script>
axe.run({resultTypes: ["violations"]}).then((found) => {
  const bad = found.violations.map((v) => [v.id, v.nodes.map((n) => n.html.slice(0, 200))]);
  const loaded = performance.getEntriesByType("resource").map((e) => e.name).filter((n) => !n.startsWith("data:"));
  const width = document.documentElement.scrollWidth - innerWidth;
  document.body.innerHTML = "<pre id=found></pre>";
  document.getElementById("found").textContent = JSON.stringify({bad, loaded, width});
});
</script>
"""


def tried(report):
    """The view of a night whose rules have places that open."""
    night = describe_night(report)
    places = (place("git commit -am done"), place("Write the title of the incident report for 8 March 2026."))
    groups = [
        replace(group, rules=tuple(replace(rule, places=places) for rule in group.rules)) for group in night.groups
    ]
    return replace(night, groups=tuple(groups))


PAGES = {
    "accepted": lambda: render_page(tried(PAIRED)),
    "undecided": lambda: render_page(tried(GOES_ON)),
    "failed": lambda: render_page(describe_night(LOGGED_OUT)),
    "nothing-new": lambda: render_page(describe_night(SAMPLES["no-sessions"])),
    "month": lambda: render_index(history(weeks=30)),
}


def browse(path, *options):
    """What Chromium prints about a page, in a profile of its own."""
    command = [CHROMIUM, *FLAGS, f"--user-data-dir={path.parent / 'profile'}", *options, path.as_uri()]
    return subprocess.run(command, capture_output=True, check=True, text=True, timeout=120).stdout


@pytest.mark.skipif(not IS_READY, reason="needs chromium on the PATH, and AXE_CORE=/path/to/axe.min.js")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("screen", SCREENS)
@pytest.mark.parametrize("name", PAGES)
def test_page_in_a_browser(tmp_path, name, screen, scheme):
    """Everything opened: no violation, nothing loaded from anywhere, nothing wider than the window."""
    page = PAGES[name]()
    assert len(page.encode()) < 300_000
    dark = ["--blink-settings=preferredColorScheme=0"] if scheme == "dark" else []
    options = [f"--window-size={SCREENS[screen]},1600", *dark]
    if folder := os.environ.get("SCREENSHOTS"):
        (tmp_path / "page.html").write_text(page)
        browse(tmp_path / "page.html", *options, f"--screenshot={Path(folder) / f'{name}-{screen}-{scheme}.png'}")
    opened = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page).replace("<details", "<details open")
    (tmp_path / "axe.html").write_text(opened.replace("</body>", RUN.replace("AXE", Path(AXE).read_text()) + "</body>"))
    dom = browse(tmp_path / "axe.html", *options, "--virtual-time-budget=20000", "--dump-dom")
    (found,) = re.findall(r'<pre id="found">(.*?)</pre>', dom, re.DOTALL)
    assert json.loads(html.unescape(found)) == {"bad": [], "loaded": [], "width": 0}


def test_month_of_nights_is_small_and_quick():
    """Thirty nights and their index: under 6 MB and under a second."""
    render_page(tried(PAIRED))
    start = time.perf_counter()
    size = len(render_index(history(weeks=30)).encode())
    size += sum(len(render_page(tried(PAIRED)).encode()) for _ in range(30))
    assert time.perf_counter() - start < 1
    assert size < 6_000_000
