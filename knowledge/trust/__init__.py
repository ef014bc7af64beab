"""What people decided: proposals, scores, passkeys, and what each caller has read that nobody vouches for."""
