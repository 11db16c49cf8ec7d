"""The code that uses MySQL's sockets and drivers: its client protocol, connections and pools."""
