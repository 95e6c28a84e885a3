"""The recipe of ``qwen3-tiny``: its text, tokenizer, training, measured figures and model card."""
