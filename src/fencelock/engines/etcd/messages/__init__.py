"""The messages of etcd: protobuf, the requests that a lock needs, and the replies to them."""
