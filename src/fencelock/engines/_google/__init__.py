"""What the engines over services of Google Cloud share: calls over grpcio, errors, settings."""
