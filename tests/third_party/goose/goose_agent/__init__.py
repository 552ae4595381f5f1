"""An agent called Goose: its files, its sessions, a model that only honks, and a judge that counts honks."""
