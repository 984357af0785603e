"""What torch.export is made of, as far as others ask for it."""
