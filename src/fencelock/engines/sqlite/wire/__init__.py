"""The file, its file system and the sockets beside it; nothing here knows locks."""
