"""The use cases: what a user can do, as functions; only this package builds adapters and stores."""
