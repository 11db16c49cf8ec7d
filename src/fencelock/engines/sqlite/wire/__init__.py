"""What knows the file, the file system and the sockets beside it; nothing here knows locks."""
