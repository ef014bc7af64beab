"""How far a journey is: position, metrics, feedback, forks and reruns."""
