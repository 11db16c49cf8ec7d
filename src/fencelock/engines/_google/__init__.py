"""Shared code of the engines over Google Cloud services: calls over grpcio, errors, settings."""
