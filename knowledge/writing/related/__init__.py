"""Other pages that an act concerns: backlinks, targets, related pages."""
