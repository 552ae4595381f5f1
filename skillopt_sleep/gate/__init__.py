"""Decides by trials which proposed rules are accepted, and records what was tried."""
