"""The backend that runs on torch, on any device."""
