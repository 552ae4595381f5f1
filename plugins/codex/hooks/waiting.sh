#!/bin/sh
# One line at the start of a session when a proposal waits for this project: a look at one small file, nothing else.
# The engine writes that file, and does not when the setting `announce` is off.
project=${CLAUDE_PROJECT_DIR:-$PWD}
name=$(printf %s "$project" | tr -c 'A-Za-z0-9' '-')
for data in "${XDG_DATA_HOME:-$HOME/.local/share}/skillopt-sleep" "$HOME/Library/Application Support/skillopt-sleep"; do
    if [ -f "$data/waiting/$name" ] && [ "$(cat "$data/waiting/$name")" = "$project" ]; then
        echo "SkillOpt-Sleep: a tested change of this project's instructions waits for the user's word (skillopt-sleep status)."
        exit 0
    fi
done
exit 0
