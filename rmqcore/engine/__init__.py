"""What owns a store directory: its paths and files, each step a method call, no threads."""
