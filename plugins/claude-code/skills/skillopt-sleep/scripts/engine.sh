#!/bin/sh
# Run the skillopt-sleep engine wherever uv, pipx or pip has put it; arguments are passed on.
for engine in \
    "$(command -v skillopt-sleep 2>/dev/null)" \
    "$HOME/.local/bin/skillopt-sleep" \
    "${XDG_BIN_HOME:-$HOME/.local/bin}/skillopt-sleep" \
    "${UV_TOOL_DIR:-${XDG_DATA_HOME:-$HOME/.local/share}/uv/tools}/skillopt-sleep/bin/skillopt-sleep" \
    "${PIPX_HOME:-$HOME/.local/share/pipx}/venvs/skillopt-sleep/bin/skillopt-sleep" \
    "$HOME/.local/pipx/venvs/skillopt-sleep/bin/skillopt-sleep" \
    "$HOME/Library/Python/3."*/bin/skillopt-sleep; do
    if [ -n "$engine" ] && [ -x "$engine" ]; then
        exec "$engine" "$@"
    fi
done
for python in python3 python; do
    if command -v "$python" >/dev/null 2>&1 && "$python" -c 'import skillopt_sleep' 2>/dev/null; then
        exec "$python" -m skillopt_sleep "$@"
    fi
done
echo "skillopt-sleep is not installed: uv tool install skillopt-sleep (or: pipx install skillopt-sleep)" >&2
exit 127
