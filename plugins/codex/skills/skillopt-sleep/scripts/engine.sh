#!/bin/sh
# Run the skillopt-sleep engine wherever uv, pipx or pip has installed it, with the arguments given.
# Nothing in the current folder may take its place: that folder may be a project somebody else wrote.
unset PYTHONPATH PYTHONHOME
for engine in \
    "$(command -v skillopt-sleep 2>/dev/null)" \
    "$HOME/.local/bin/skillopt-sleep" \
    "${XDG_BIN_HOME:-$HOME/.local/bin}/skillopt-sleep" \
    "${UV_TOOL_DIR:-${XDG_DATA_HOME:-$HOME/.local/share}/uv/tools}/skillopt-sleep/bin/skillopt-sleep" \
    "${PIPX_HOME:-$HOME/.local/share/pipx}/venvs/skillopt-sleep/bin/skillopt-sleep" \
    "$HOME/.local/pipx/venvs/skillopt-sleep/bin/skillopt-sleep" \
    "$HOME/Library/Python/3."*/bin/skillopt-sleep; do
    case $engine in
        /*) if [ -f "$engine" ] && [ -x "$engine" ]; then exec "$engine" "$@"; fi ;;
    esac
done
for name in python3 python; do
    python=$(command -v "$name" 2>/dev/null)
    case $python in
        /*) if "$python" -P -c 'import skillopt_sleep' 2>/dev/null; then exec "$python" -P -m skillopt_sleep "$@"; fi ;;
    esac
done
echo "skillopt-sleep is not installed: in a clone of its repository, uv tool install . (or: pipx install .)" >&2
exit 127
