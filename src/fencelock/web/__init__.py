"""What all pages share: their look, the libraries they are made with, and how they are served."""
