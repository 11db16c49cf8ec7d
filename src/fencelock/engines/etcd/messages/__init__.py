"""The bytes of etcd: protobuf, the requests that a lock needs, and what the server replies."""
