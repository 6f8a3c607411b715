"""Messages between voters, and the connections that carry them."""
