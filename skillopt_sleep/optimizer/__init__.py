"""One SkillOpt step, shared by the night and by training: replay, reflect, aggregate, select."""
