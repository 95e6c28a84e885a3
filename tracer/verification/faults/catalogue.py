"""The faults that verification must catch, each with the check that names it.

Texts stand in annotations/texts/verify.toml (``fault_<id>``). Must not know: how a fault is planted.
"""

from tracer.verification.faults.records import Edit, Fault

_INIT = "Qwen3Attention.__init__"
_FORWARD = "Qwen3Attention.forward"
_YARN = {
    "rope_parameters": {
        "rope_type": "yarn",
        "rope_theta": 10000.0,
        "factor": 4.0,
        "original_max_position_embeddings": 64,
    },
    "max_position_embeddings": 256,
}
_SLIDING = {"use_sliding_window": True, "sliding_window": 7, "max_window_layers": 1}


def _init(name: str, code: str) -> Edit:
    return Edit("model", _INIT, f"self.{name} = HERE", code)


def _interface(pattern: str, code: str) -> Edit:
    return Edit("model", _FORWARD, f"attention_interface({pattern})", code)


def _forward(pattern: str, code: str) -> Edit:
    return Edit("model", _FORWARD, pattern, code)


def _eager(pattern: str, code: str) -> Edit:
    return Edit("model", "eager_attention_forward", pattern, code)


def _tokens(wrong: str, first: int = 18, last: int = 22) -> str:
    """Return code that takes ``wrong`` in place of {0}, [B, heads, T, D], for tokens in the middle of the prompt."""
    return f"torch.cat([{{0}}[:, :, :{first}], ({wrong})[:, :, {first}:{last}], {{0}}[:, :, {last}:]], 2)"


def _one_head(x: str, factor: float) -> str:
    """Return code that multiplies one head of ``x``, [B, heads, T, D]."""
    return f"torch.cat([{x}[:, :1], {x}[:, 1:2] * {factor}, {x}[:, 2:]], 1)"


def _linear(name: str, given: str, weight: str) -> str:
    return f"nn.functional.linear({given}, self.{name}.weight{weight})"


_PROJECTED = "self.{0}_proj(hidden_states).view(hidden_shape)"
_Q, _K = (_PROJECTED.format(name) for name in "qk")

SCALE = (
    Fault(
        "scale_hidden", "scale.static", (_init("scaling", "(config.hidden_size // config.num_attention_heads)**-0.5"),)
    ),
    Fault("scale_doubled", "scale.static", (_init("scaling", "2 * {0}"),)),
    Fault("scale_squared", "scale.static", (_init("scaling", "self.head_dim**-1"),)),
    Fault("scale_bf16", "scale.value", (_init("scaling", "float(torch.tensor({0}, device='cpu').bfloat16())"),)),
    Fault("scale_absent", "scale.value", (_interface("..., scaling=HERE", "1.0"),)),
    Fault("scale_twice", "scale.once", (_interface("_, HERE, ...", "query_states * self.scaling"),)),
    Fault(
        "scale_on_the_way",
        "scale.kernel",
        (Edit("flash", "flash_attention_forward", "_flash_attention_forward(..., softmax_scale=HERE)", "{0} * 1.5"),),
    ),
    Fault("scale_ignored", "scale.effective", kernel_change="scale_ignored"),
    Fault("scale_one_head", "scale.once", (_interface("_, HERE, ...", _one_head("query_states", 1.04)),)),
    Fault(
        "scale_one_head_bf16",
        "scale.once",
        (_interface("_, HERE, ...", _one_head("query_states", 1.02)),),
        dtype="BF16",
    ),
    Fault(
        "scale_in_decode",
        "scale.value",
        (_interface("..., scaling=HERE", "{0} if query_states.shape[2] > 1 else 0.5"),),
        scenario="decode",
    ),
    Fault("scale_yarn", "scale.value", (_init("scaling", "{0} * 1.1386294361119891**2"),), config=_YARN),
)
CAUSAL = (
    Fault("causal_false", "causal.weights", (_init("is_causal", "False"),)),
    Fault("causal_ignored", "causal.effect", kernel_change="causal_ignored"),
    Fault("top_left", "kernel.alignment", kernel_change="top_left"),
    Fault("top_left_chunk", "causal.alignment", kernel_change="top_left", scenario="chunk"),
    Fault("diagonal_high", "causal.weights", kernel_change="diagonal_high"),
    Fault("diagonal_low", "causal.weights", kernel_change="diagonal_low"),
    Fault(
        "causal_without_padding",
        "causal.weights",
        (Edit("flash", "flash_attention_forward", "is_causal = HERE", "attention_mask is None"),),
        scenario="right_pad",
    ),
)
SOFTMAX = (
    Fault(
        "mask_finite",
        "causal.large",
        (
            _eager(
                "attn_weights = HERE(attn_weights + attention_mask)", "attn_weights + attention_mask.clamp(min=-200.0)"
            ),
        ),
        kernel="eager",
    ),
    Fault(
        "mask_after_softmax",
        "softmax.rows",
        (
            _eager("attn_weights = HERE(attn_weights + attention_mask)", "attn_weights"),
            _eager("nn.functional.softmax(...)", "{0} * (attention_mask == 0)"),
        ),
        kernel="eager",
        place=1,
    ),
    Fault(
        "softmax_queries",
        "softmax.rows",
        (_eager("nn.functional.softmax(...)", "nn.functional.softmax(attn_weights, dim=-2)"),),
        kernel="eager",
    ),
    Fault(
        "softmax_bf16",
        "softmax.precision",
        (_eager("nn.functional.softmax(...)", "nn.functional.softmax(attn_weights.bfloat16(), dim=-1)"),),
        kernel="eager",
    ),
    Fault(
        "softmax_no_max",
        "softmax.large",
        (_eager("nn.functional.softmax(...)", "attn_weights.exp() / attn_weights.exp().sum(-1, keepdim=True)"),),
        kernel="eager",
    ),
    Fault("lse_base_two", "kernel.lse", kernel_change="lse_base_two"),
    Fault("lse_unscaled", "softmax.row_max", kernel_change="lse_unscaled"),
    Fault("empty_nan", "kernel.empty_rows", kernel_change="empty_nan"),
)
NORM = (
    Fault("q_norm_skipped", "norm.present", (_forward("self.q_norm(...)", _Q),)),
    Fault("k_norm_skipped", "norm.present", (_forward("self.k_norm(...)", _K),)),
    Fault(
        "norms_swapped",
        "norm.weights",
        (
            _forward("self.q_norm(...)", f"self.k_norm({_Q})"),
            _forward("self.k_norm(...)", f"self.q_norm({_K})"),
        ),
    ),
    Fault(
        "norm_after_rope",
        "norm.order",
        (
            _forward("apply_rotary_pos_emb(...)", "(lambda q, k: (self.q_norm(q), self.k_norm(k)))(*{0})"),
            _forward("self.q_norm(...)", _Q),
            _forward("self.k_norm(...)", _K),
        ),
    ),
    Fault(
        "q_norm_skipped_middle",
        "norm.present",
        (
            _forward(
                "self.q_norm(...)",
                f"(lambda x: torch.cat([{{0}}[:, :18], x[:, 18:22], {{0}}[:, 22:]], 1))({_Q})",
            ),
        ),
    ),
    Fault(
        "q_norm_skipped_one_head",
        "norm.present",
        (
            _forward(
                "self.q_norm(...)",
                f"(lambda x: torch.cat([{{0}}[:, :, :1], x[:, :, 1:2], {{0}}[:, :, 2:]], 2))({_Q})",
            ),
        ),
        dtype="BF16",
    ),
    Fault(
        "q_norm_skipped_decode",
        "norm.present",
        (_forward("self.q_norm(...)", f"({{0}} if hidden_states.shape[1] > 1 else {_Q})"),),
        scenario="decode",
    ),
    Fault("norm_eps", "norm.eps", (_init("q_norm", "Qwen3RMSNorm(self.head_dim, eps=1e-5)"),)),
    Fault(
        "norm_all_heads",
        "norm.present",
        (
            _forward(
                "self.q_norm(...)",
                "(lambda x: x * torch.rsqrt(x.flatten(2).pow(2).mean(-1)[..., None, None]"
                f" + self.q_norm.variance_epsilon) * self.q_norm.weight)({_Q})",
            ),
        ),
    ),
    Fault(
        "norm_unweighted",
        "norm.weights",
        (Edit("model", "Qwen3RMSNorm.forward", "return HERE", "hidden_states.to(input_dtype)"),),
    ),
)
ROPE = (
    Fault("rope_missing_k", "rope.applied", (Edit("model", "apply_rotary_pos_emb", "k_embed = HERE", "k"),)),
    Fault(
        "rope_missing_middle",
        "rope.applied",
        (Edit("model", "apply_rotary_pos_emb", "q_embed = HERE", _tokens("q")),),
    ),
    Fault(
        "rope_missing_middle_k",
        "rope.applied",
        (Edit("model", "apply_rotary_pos_emb", "k_embed = HERE", _tokens("k")),),
    ),
    Fault(
        "rope_missing_token",
        "rope.applied",
        (Edit("model", "apply_rotary_pos_emb", "q_embed = HERE", _tokens("q", 20, 21)),),
    ),
    Fault(
        "rope_missing_batch",
        "rope.applied",
        (Edit("model", "apply_rotary_pos_emb", "q_embed = HERE", "({0} if q.shape[0] == 1 else q)"),),
        scenario="padded",
    ),
    Fault(
        "rope_backwards_batch",
        "rope.pairing",
        (
            Edit(
                "model",
                "rotate_half",
                "return HERE",
                "({0} if x.shape[0] == 1 else torch.cat((x2, -x1), dim=-1))",
            ),
        ),
        scenario="padded",
    ),
    Fault(
        "rope_left_padded",
        "rope.positions",
        (
            Edit(
                "model",
                "Qwen3RotaryEmbedding.forward",
                "freqs = HERE",
                "({0} if {0}.shape[0] < 3 else {0} + 7 * torch.eye(3)[1, :, None, None] * self.inv_freq)",
            ),
        ),
        scenario="padded",
    ),
    Fault(
        "rope_interleaved",
        "rope.pairing",
        (
            Edit(
                "model", "rotate_half", "return HERE", "torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).flatten(-2)"
            ),
            Edit("model", "Qwen3RotaryEmbedding.forward", "emb = HERE", "freqs.repeat_interleave(2, dim=-1)"),
        ),
    ),
    Fault(
        "rope_half_interleaved",
        "rope.pairing",
        (Edit("model", "rotate_half", "return HERE", "torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).flatten(-2)"),),
    ),
    Fault(
        "rope_backwards", "rope.pairing", (Edit("model", "rotate_half", "return HERE", "torch.cat((x2, -x1), dim=-1)"),)
    ),
    Fault(
        "rope_shifted",
        "rope.positions",
        (Edit("model", "Qwen3Model.forward", "position_ids = HERE(_ + _)", "{0} + 1"),),
    ),
    Fault(
        "rope_angle_shifted",
        "rope.positions",
        (Edit("model", "Qwen3RotaryEmbedding.forward", "freqs = HERE", "({0} + self.inv_freq)"),),
    ),
    Fault(
        "rope_theta",
        "rope.theta",
        (Edit("model", "Qwen3RotaryEmbedding.compute_default_rope_parameters", "base = HERE", "100 * {0}"),),
    ),
    Fault(
        "yarn_doubled",
        "rope.factor",
        (
            Edit("model", "Qwen3RotaryEmbedding.forward", "cos = HERE", "{0} * self.attention_scaling"),
            Edit("model", "Qwen3RotaryEmbedding.forward", "sin = HERE", "{0} * self.attention_scaling"),
        ),
        config=_YARN,
    ),
)
HEADS = (
    Fault("heads_tiled_kernel", "heads.keys", kernel_change="heads_tiled"),
    Fault(
        "heads_tiled",
        "heads.keys",
        (
            Edit(
                "model",
                "repeat_kv",
                "return HERE(_.reshape(...))",
                "hidden_states.transpose(1, 2).reshape(batch, num_key_value_heads * n_rep, slen, head_dim)",
            ),
        ),
        kernel="eager",
    ),
    Fault("hidden_changed", "projections", (_forward("self.v_proj(HERE)", "{0} * 1.001"),)),
    Fault("values_changed_middle", "heads.values", (_forward("value_states = HERE", _tokens("{0} * 2")),)),
    Fault(
        "values_changed_packed",
        "heads.values",
        (_forward("value_states = HERE", "{0} * (1 if kwargs.get('max_length_q') == hidden_states.shape[1] else 2)"),),
        scenario="packed",
    ),
    Fault(
        "v_weight_inline",
        "projections",
        (_forward("self.v_proj(hidden_states)", _linear("v_proj", "hidden_states", " * 1.5")),),
    ),
    Fault(
        "o_weight_inline",
        "projections",
        (_forward("attn_output = HERE(self.o_proj(...))", _linear("o_proj", "attn_output", ".roll(1, 0)")),),
    ),
    Fault("output_scaled", "output.returned", (_forward("attn_output = HERE(self.o_proj(...))", "{0} * 0.5"),)),
    Fault("value_head_kernel", "heads.values", kernel_change="value_head"),
    Fault("value_heads_reversed", "heads.values", (_forward("value_states = HERE", "{0}.flip(1)"),)),
    Fault(
        "heads_transposed",
        "heads.layout",
        (
            _forward(
                "attn_output = HERE(_.contiguous())",
                "attn_output.transpose(1, 2).reshape(*input_shape, -1).contiguous()",
            ),
        ),
    ),
)
SIGHT = (
    Fault("window_everywhere", "window.none", (_init("sliding_window", "config.sliding_window"),), config=_SLIDING),
    Fault("window_ignored", "window.effective", (_init("sliding_window", "None"),), config=_SLIDING),
    Fault("window_ignored_kernel", "window.effective", kernel_change="window_ignored", config=_SLIDING),
    Fault(
        "window_off_by_one",
        "window.effective",
        (
            Edit(
                "flash_utils",
                "_process_flash_attention_kwargs",
                'flash_kwargs["window_size"] = HERE',
                "(sliding_window, sliding_window)",
            ),
        ),
        config=_SLIDING,
    ),
    Fault("packing_ignored", "packing.weights", kernel_change="packing_ignored", scenario="packed"),
    Fault(
        "padding_ignored",
        "padding.weights",
        (Edit("flash", "flash_attention_forward", "_flash_attention_forward(_, _, _, HERE, ...)", "None"),),
        scenario="left_pad",
    ),
)
CACHE = (
    Fault(
        "cache_stale",
        "cache.rows",
        (
            _forward(
                "key_states, value_states = HERE", "(lambda k, v: (torch.cat([k[:, :, :-1], k[:, :, :1]], 2), v))(*{0})"
            ),
        ),
        scenario="decode",
    ),
    Fault(
        "cache_shifted",
        "cache.rows",
        (_forward("key_states, value_states = HERE", "(lambda k, v: (k, v.roll(1, 2)))(*{0})"),),
        scenario="decode",
    ),
    Fault(
        "decode_position",
        "rope.positions",
        (Edit("model", "Qwen3Model.forward", "past_seen_tokens = HERE", "0"),),
        scenario="decode",
    ),
    Fault(
        "dropout_decode",
        "dropout.off",
        (_interface("..., dropout=HERE", "(0.0 if query_states.shape[2] > 1 else 0.5)"),),
        kernel="sdpa",
        scenario="decode",
    ),
    Fault("dropout_active", "dropout.off", (_interface("..., dropout=HERE", "0.1"),), kernel="sdpa"),
)
FAULTS: tuple[Fault, ...] = (*SCALE, *CAUSAL, *SOFTMAX, *NORM, *ROPE, *HEADS, *SIGHT, *CACHE)
