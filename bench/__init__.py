"""How fast `compose` is, beside other tools: whole processes, measured in one run."""
