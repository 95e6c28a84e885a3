"""All rules, in the order they are documented. A rule's texts are ``lint.<id with _>``, ``…_fix`` and ``…_what``.

Must not know: how a rule decides.
"""

from tracer.lint.records import Severity
from tracer.lint.rules import arguments, causality, scales, written_out
from tracer.lint.rules.subject import Rule

_ERROR, _WARNING = Severity.ERROR, Severity.WARNING

RULES = (
    Rule("scale-hidden-size", _ERROR, scales.hidden_size),
    Rule("scale-derived-head-dim", _ERROR, scales.derived_head_dim),
    Rule("scale-power", _ERROR, scales.power),
    Rule("scale-twice", _ERROR, scales.twice),
    Rule("scale-not-head-dim", _ERROR, scales.other_in_qwen3),
    Rule("scale-hard-coded", _WARNING, scales.hard_coded),
    Rule("causal-mask-presence", _ERROR, causality.mask_presence),
    Rule("causal-and-mask", _ERROR, causality.with_mask),
    Rule("causal-alignment", _WARNING, causality.top_left),
    Rule("causal-ignored", _ERROR, causality.ignored_flag),
    Rule("causal-off", _ERROR, causality.off),
    Rule("causal-triangle", _ERROR, causality.triangle),
    Rule("argument-order", _ERROR, arguments.positions),
    Rule("dropout-inference", _WARNING, arguments.dropout),
    Rule("dropout-always", _WARNING, written_out.dropout),
    Rule("window-off-by-one", _WARNING, arguments.window),
    Rule("kv-head-order", _ERROR, arguments.repeated_heads),
    Rule("softmax-axis", _ERROR, written_out.axis),
    Rule("softmax-before-mask", _ERROR, written_out.late_mask),
    Rule("mask-constant-float16", _WARNING, written_out.half_constant),
    Rule("norm-after-rope", _ERROR, written_out.norm_after_rotation),
)
BETWEEN = "scale-differs"  # found between kernels of one class, not at one
IDS = (*(rule.id for rule in RULES), BETWEEN)
