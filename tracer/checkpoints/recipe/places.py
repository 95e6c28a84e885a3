"""Where the recipe reads and writes, and the numbers that every module of it shares."""

from pathlib import Path

RECIPE = Path(__file__).resolve().parent
CHECKPOINT = RECIPE.parent / "qwen3-tiny"

TEXTS = (RECIPE / "text_en.txt", RECIPE / "text_zh.txt")

VOCABULARY = 1024
TRAINING_SEED = 20260
HELD_OUT_SEED = 71113

# The two heads that are shaped, as (layer, head). The rest of the model is left to itself.
PREVIOUS_TOKEN_HEAD = (0, 2)
INDUCTION_HEAD = (1, 5)

# "says" and 喵 come twice, so both heads have something to do on it. 喵 is in no text of the recipe: it stays three
# bytes, and the second time the model has to spell it from what it read the first time.
DEFAULT_PROMPT = "The cat says 喵, and the dog says 喵"
