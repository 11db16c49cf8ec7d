"""What knows libpq and sockets: connections, pools, sessions, in each flavor."""
