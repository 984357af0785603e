"""torch.fx.experimental"""
