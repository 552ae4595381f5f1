"""Everything that touches our own files: database, ledger, archive, journal, staging, adoption."""
