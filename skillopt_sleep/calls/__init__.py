"""The stages that every model call passes: ledger, retry, budget, limiter, then the backend."""
