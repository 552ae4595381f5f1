"""What a user can do, as functions; the only place that builds adapters and stores."""
