"""The base page of HTML reports."""
