#!/usr/bin/env bash
# Draw docs/page.png, the picture in the README: the page of the demo's night, as Chromium shows it.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
PATH="$VENV/bin:$PATH" "$VENV/bin/python" -P -m skillopt_sleep demo --folder "$work/demo" >/dev/null 2>&1
page=$(find "$work/demo/project/.skillopt-sleep/nights" -name report.html)
sed -i 's|<p class="quiet">In a terminal, in [^<]*</p>||; s| --project [^"<]*||g' "$page"
chromium --headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking \
    --disable-component-update --disable-sync --hide-scrollbars --user-data-dir="$work/profile" \
    --window-size=1000,1300 --screenshot="$ROOT/docs/page.png" "file://$page" 2>/dev/null
ls -l "$ROOT/docs/page.png"
