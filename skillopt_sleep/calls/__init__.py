"""The stages that every model call passes: stored replies, retry, budget, limiter, then the backend."""
