"""What happens to every model call, one small wrapper each: ledger, budget, limit, retry, backend."""
