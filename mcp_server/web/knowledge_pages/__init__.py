"""The reading side of the site: pages with their links and origins, the map, and attachments."""
