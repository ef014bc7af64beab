"""Skills: chains and graphs of agents as data, each led as one journey. Ours lie here, a team's in its `_skills/`."""
