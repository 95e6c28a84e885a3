"""torchlens: every operation is logged, with the line that called it, up to the layer's attention."""
