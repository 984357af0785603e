"""What is said to torch.export, as plain data."""
