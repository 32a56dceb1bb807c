"""How the plugin is loaded: when something needs it, with the logging of the host kept."""
