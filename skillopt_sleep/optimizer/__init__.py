"""One SkillOpt step, for nights and training: rollouts of tasks, proposed edits, merging, choice within a budget."""
