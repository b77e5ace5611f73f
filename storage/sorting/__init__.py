"""External sort of connections in bounded memory."""
