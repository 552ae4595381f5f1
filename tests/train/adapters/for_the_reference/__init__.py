"""An environment as it is written for the reference: a package with relative imports and prompts of its own."""
