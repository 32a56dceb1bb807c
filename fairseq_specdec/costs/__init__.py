"""How long passes take on this machine: what decides how much is drafted."""
