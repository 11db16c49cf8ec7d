"""What knows bytes, sockets and drivers of MySQL: the protocol, connections, and pools of them."""
