"""The verbs: one module each, imported only when it is used."""
