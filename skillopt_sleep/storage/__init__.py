"""All modules that read and write our own files: database, ledger, archive, journal, staging, adoption."""
