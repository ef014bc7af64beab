"""The engine of journeys: graph, events, their fold into state, and the runner that judges and records each submit."""
