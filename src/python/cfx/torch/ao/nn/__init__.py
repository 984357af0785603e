"""torch.ao.nn: fused and quantized layers, which quantize_fx makes."""
