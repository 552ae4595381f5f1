"""What the adapters of session files share, and the record formats behind them; no adapter lies here."""
