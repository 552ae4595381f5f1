"""SkillOpt-Sleep: a nightly run that improves the skill and memory files a coding agent obeys."""

__version__ = "0.1.0"
