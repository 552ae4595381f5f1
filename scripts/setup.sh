# Sourced by the other scripts: a virtual environment of this checkout's own, with the versions of constraints.txt.
#
# Sets ROOT (the checkout) and VENV. Does nothing when what is installed is what pyproject.toml and constraints.txt ask
# for. Usage: source scripts/setup.sh [extra]

# Every Python is isolated (-I): the folder you stand in may be a project that somebody else wrote, and none of its files
# may be imported in place of a module of ours.

unset PYTHONPATH PYTHONHOME
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
VENV=$ROOT/.venv

find_python() {
    local candidate
    for candidate in python3.14 python3.13 python3.12 python3.11 python3 python; do
        if command -v "$candidate" >/dev/null 2>&1 &&
            "$candidate" -I -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    echo "skillopt-sleep needs Python 3.11 or newer, and none was found; install it, then run this again." >&2
    return 1
}

set_up() {
    local extra=$1 python wanted stamp=$VENV/.installed${1:+-$1}
    python=$(find_python) || return
    wanted=$(cat "$ROOT/pyproject.toml" "$ROOT/constraints.txt" "${BASH_SOURCE[0]}" | cksum)
    if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ]; then
        return
    fi
    echo "setting up $VENV ..." >&2
    if [ ! -x "$VENV/bin/python" ] && ! "$python" -I -m venv "$VENV" >&2; then
        rm -rf "$VENV"
        echo "could not make a virtual environment; on Debian and Ubuntu: apt install python3-venv" >&2
        return 1
    fi
    local install=("$VENV/bin/python" -I -m pip install --quiet --disable-pip-version-check -c "$ROOT/constraints.txt")
    # The build backend first, so that it too is the pinned one.
    "${install[@]}" hatchling editables >&2 || return
    "${install[@]}" --no-build-isolation -e "$ROOT${extra:+[$extra]}" >&2 || return
    printf '%s' "$wanted" >"$stamp"
}

set_up "${1:-}" || exit 1
