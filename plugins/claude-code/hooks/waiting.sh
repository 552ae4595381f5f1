#!/bin/sh
# Print one line at the start of a session when a proposal waits for this project. It only reads one small file, which
# the engine writes with a project on each line, unless the setting `announce` is off.
here=$(cd -- "${CLAUDE_PROJECT_DIR:-.}" 2>/dev/null && pwd -P) || exit 0
for data in "${XDG_DATA_HOME:-$HOME/.local/share}/skillopt-sleep" "$HOME/Library/Application Support/skillopt-sleep"; do
    [ -f "$data/waiting.txt" ] || continue
    project=$here
    above=
    while [ -n "$project" ]; do
        while IFS= read -r line; do
            if [ "$line" = "$project" ]; then
                look="skillopt-sleep status${above:+ --project $above}"
                echo "SkillOpt-Sleep: a tested change of this project's instructions waits for the user's word ($look)."
                exit 0
            fi
        done <"$data/waiting.txt"
        [ -e "$project/.git" ] && break
        project=${project%/*}
        above=${above:+$above/}..
    done
done
exit 0
