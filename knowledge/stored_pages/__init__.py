"""Pages and attachments kept in the state database instead of in a folder, and the copies of them that machines hold."""
