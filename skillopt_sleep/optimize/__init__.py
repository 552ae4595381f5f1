"""One SkillOpt step: replay, reflect, select, gate; shared by a night and by training."""
