"""One SkillOpt step, for nights and for training: rollouts of tasks, proposed edits, merging, choice in a budget."""
