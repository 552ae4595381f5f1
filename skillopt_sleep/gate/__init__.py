"""The decision rule, the trial that feeds it, and the account of what was tried."""
