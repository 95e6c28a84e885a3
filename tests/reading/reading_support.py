"""Pages as text, and releases whose files a test writes itself."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent

from tracer.page.record import Excerpt, Page
from tracer.reading import ask
from tracer.reading.library import Library
from tracer.reading.releases import Release
from tracer.render.terminal.render import render
from tracer.render.terminal.screen import Screen
from tracer.source.files import SourceFile
from tracer.texts import message


def shown(language: str = "en", width: int = 100, **asked: object) -> str:
    """The page of ``asked`` on a plain screen."""
    return written(ask.page(ask.Asked(**asked), language, width), width)  # type: ignore[arg-type]


def written(page: Page, width: int = 100) -> str:
    return render(page, Screen(width=width))


def excerpts(page: Page) -> list[Excerpt]:
    return [block for section in page.sections for block in section.blocks if isinstance(block, Excerpt)]


def source_file(framework: str, member: str, source: str) -> SourceFile:
    text = dedent(source).lstrip("\n")
    return SourceFile(
        framework, "1", member, Path("/nowhere") / member, text, hashlib.sha256(text.encode()).hexdigest()
    )


def library(framework: str) -> Library:
    return Library(Release(framework, "1", False, message("source_pages.release_asked")))


FLASH = {
    "interface": """
        class FlashAttnVarlenFunc(torch.autograd.Function):
            @staticmethod
            def forward(ctx, q, k, v, softmax_scale, causal):
                if softmax_scale is None:
                    softmax_scale = q.shape[-1] ** (-0.5)
                if q.size(2) % 8 != 0:
                    q = torch.nn.functional.pad(q, [0, 8])
                return _wrapped_flash_attn_varlen_forward(q, k, v, softmax_scale, causal=causal)

        def _flash_attn_varlen_forward(q, k, v, softmax_scale, causal):
            return flash_attn_gpu.varlen_fwd(q, k, v, softmax_scale, causal)

        def flash_attn_varlen_func(q, k, v, softmax_scale=None, causal=False):
            return FlashAttnVarlenFunc.apply(q, k, v, softmax_scale, causal)

        def flash_attn_with_kvcache(q, k_cache, v_cache):
            return flash_attn_gpu.fwd_kvcache(q, k_cache, v_cache)
        """
}


def files_of(framework: str, sources: Mapping[str, str]) -> dict[str, SourceFile]:
    return {key: source_file(framework, f"{key}.py", source) for key, source in sources.items()}
