"""One opened Qwen3 checkpoint: its facts, its tensors' places, and exactly those numbers that are asked for.

Bytes are read, never mapped: the file is checked already, a whole 65 GB file need not fit into the address
space, and one row of an embedding costs one row. Must not know: the model's code, kernels, rendering.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracer import data
from tracer.bounds import check_head, check_layer
from tracer.checkpoint import layout, strictjson
from tracer.checkpoint.characters import bare_token
from tracer.checkpoint.header import TensorInfo
from tracer.checkpoint.places import Place
from tracer.checkpoint.prompt import check_token_ids
from tracer.checkpoint.settings import Settings, model_arguments, read_settings
from tracer.checkpoint.shards import Shards, read_shards
from tracer.checkpoint.tokenizer import Tokenizer, read_tokenizer
from tracer.checkpoint.wording import found_there, listed, shape_text
from tracer.errors import InputError, Unsupported
from tracer.records import CheckpointFacts, ModelFacts, Token
from tracer.texts import Message, message

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray

CONFIG = "config.json"
DEFAULT_PROMPT = "default_prompt.txt"
SHIPPED = "qwen3-tiny"
CHUNK = 1 << 28  # the largest single read; Linux itself reads at most 2 GiB at once
_SHOWN_BARE = {
    "checkpoint.no_tokenizer": "checkpoint.bare_no_tokenizer",
    "checkpoint.tokenizer_kind": "checkpoint.bare_tokenizer_kind",
    "checkpoint.tokenizer_invalid": "checkpoint.bare_tokenizer_invalid",
}
_CONFIG_DTYPE = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}


class Checkpoint:
    """A Qwen3 checkpoint whose config and weight headers have been checked. Nothing is ever written into its folder."""

    def __init__(self, place: Place) -> None:
        """Read and check config and headers at ``place``; raises InputError or Unsupported."""
        self._place = place
        config_file = place.find(CONFIG)
        if config_file is None:
            raise InputError("checkpoint.no_config", folder=str(place.folder), found=found_there(place.names()))
        raw = strictjson.read_bytes(config_file, strictjson.MEGABYTE)
        self._config_sha256 = hashlib.sha256(raw).hexdigest()
        self._config = strictjson.parse_object(raw, config_file)
        self.settings: Settings = read_settings(self._config, config_file)
        self._shards: Shards = read_shards(place)
        self._bytes_read = 0
        self._notes: list[Message] = []

    @property
    def name(self) -> str:
        """The folder's name, or the hub id."""
        return self._place.name

    @property
    def folder(self) -> Path:
        """The folder on this machine; for a hub id, the snapshot in the hub's cache."""
        return self._place.folder

    @property
    def revision(self) -> str | None:
        """The commit of a hub checkpoint; None for a folder."""
        return self._place.revision

    @property
    def config(self) -> dict[str, Any]:
        """What to build transformers' Qwen3Config from: the checked fields of config.json alone, a new dictionary."""
        return model_arguments(self._config, self.settings)

    @property
    def tensors(self) -> Mapping[str, TensorInfo]:
        """The tensors by name. Looking one up may download its shard; iterating over names and ``in`` do not."""
        return self._shards

    @property
    def bytes_read(self) -> int:
        """How many bytes of tensors have been read so far (headers not counted)."""
        return self._bytes_read

    @property
    def bytes_stored(self) -> int | None:
        """How many bytes all tensors take; None for a hub checkpoint, whose other shards are not here."""
        return sum(info.nbytes for info in self._shards.values()) if self._place.complete else None

    @property
    def warnings(self) -> tuple[Message, ...]:
        """What the reader should know about this checkpoint though it can be traced."""
        found = list(self.settings.warnings)
        if not self.settings.tied and layout.OUTPUT not in self._shards:
            found.append(message("checkpoint.no_output_layer", tensor=layout.OUTPUT))
        stored, written = self.dtype, self.settings.dtype
        if written is not None and _CONFIG_DTYPE[stored] != written:
            found.append(message("checkpoint.dtype_differs", stored=stored, written=written))
        return (*found, *self._notes)

    @cached_property
    def dtype(self) -> str:
        """The dtype the first layer's query projection is stored in, as safetensors writes it (``BF16``)."""
        name = layout.layer_prefix(0) + "self_attn.q_proj.weight"
        self._require({name: self._shape_of(name)})
        return self._shards[name].dtype

    def facts(self) -> CheckpointFacts:
        """Return which checkpoint this is; a hub checkpoint's header hash covers the shards read so far."""
        dtype = self.dtype
        return CheckpointFacts(
            name=self.name,
            revision=self.revision,
            dtype=dtype,
            config_sha256=self._config_sha256,
            headers_sha256=self._shards.headers_sha256(),
            tied=self.settings.tied,
        )

    def model_facts(self, layer: int) -> ModelFacts:
        """Return the model's shape and what layer ``layer`` is; raises InputError where there is no such layer."""
        settings = self.settings
        self.check_layer(layer)
        layer_type = settings.layer_types[layer]
        return ModelFacts(
            layers=settings.layers,
            heads=settings.heads,
            kv_heads=settings.kv_heads,
            head_dim=settings.head_dim,
            hidden_size=settings.hidden_size,
            layer_type=layer_type,
            window=settings.window if layer_type == "sliding_attention" else None,
            max_positions=settings.max_positions,
            norm_eps=settings.norm_eps,
            rope=dict(settings.rope),
        )

    def check_layer(self, layer: int) -> None:
        """Raise InputError, which says the range, where the model has no layer ``layer``."""
        check_layer(layer, self.settings.layers)

    def check_head(self, head: int) -> None:
        """Raise InputError, which says the range, where the model has no query head ``head``."""
        check_head(head, self.settings.heads)

    def check_token_ids(self, ids: Sequence[int]) -> None:
        """Raise InputError unless ``ids`` is a prompt this model can take (see tracer.checkpoint.prompt)."""
        check_token_ids(ids, self.settings)

    def require_layers(self, last: int, *, attention_only_for_last: bool = True) -> None:
        """Raise InputError unless every tensor that layer ``last``'s attention depends on is there in the right shape.

        That is: the embedding, all of the layers below ``last``, and of ``last`` itself input_layernorm and self_attn
        (or all of it). A tensor of the attention that the config has no place for is refused too: transformers would
        leave it out in silence, and the numbers shown would not be those of the model that was trained.
        """
        self.check_layer(last)
        needed: dict[str, tuple[int, ...]] = {layout.EMBEDDING: layout.embedding_shape(self.settings)}
        for layer in range(last + 1):
            part = layout.layer_shapes(self.settings, layer, attention_only=attention_only_for_last and layer == last)
            self._refuse_unexpected(layer, part)
            needed.update(part)
        self._require(needed)

    def load(self, names: Iterable[str], dtype: "torch.dtype | None" = None) -> "dict[str, torch.Tensor]":
        """Return the named tensors, in their stored shape and in their stored dtype or ``dtype``; CPU, contiguous.

        Raises InputError where a tensor is missing or its file has changed since it was checked.
        """
        loaded = {}
        for name in names:
            info = self._info(name)
            read = self._read(info, [info.offset], info.nbytes)
            loaded[name] = _as_tensor(read, info.dtype, info.shape, dtype)
        return loaded

    def embedding_rows(self, ids: Sequence[int], dtype: "torch.dtype | None" = None) -> "torch.Tensor":
        """Return the embeddings of ``ids``, [T, C]; each row is read once however often its token occurs."""
        import torch

        self.check_token_ids(ids)
        self._require({layout.EMBEDDING: layout.embedding_shape(self.settings)})
        info = self._info(layout.EMBEDDING)
        row = info.nbytes // info.shape[0]
        unique = sorted(set(ids))
        read = self._read(info, [info.offset + id * row for id in unique], row)
        rows = _as_tensor(read, info.dtype, (len(unique), info.shape[1]), dtype)
        place = {id: index for index, id in enumerate(unique)}
        return rows[torch.tensor([place[id] for id in ids])]

    def tokenizer(self) -> Tokenizer:
        """Return the checkpoint's tokenizer; raises InputError where it has none that can be read."""
        return self._tokenizer

    def tokens(self, ids: Sequence[int]) -> tuple[Token, ...]:
        """Return the tokens of ``ids``; without a usable tokenizer they lack bytes and text, and a warning says why."""
        try:
            return self._tokenizer.tokens(ids)
        except InputError as fault:
            if (note := _bare(fault.message)) not in self._notes:
                self._notes.append(note)
            return tuple(bare_token(id) for id in ids)

    def default_prompt(self) -> str:
        """Return the text to trace where none is given: the folder's own default_prompt.txt, else the shipped one."""
        own = self._place.find(DEFAULT_PROMPT) if self._place.complete else None
        file = own or data.shipped_checkpoint(SHIPPED) / DEFAULT_PROMPT
        return strictjson.read_text(file, strictjson.MEGABYTE).rstrip("\r\n")

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        return read_tokenizer(self._place)

    def _shape_of(self, name: str) -> tuple[int, ...]:
        return layout.layer_shapes(self.settings, 0)[name]

    def _info(self, name: str) -> TensorInfo:
        if name not in self._shards:
            raise InputError("checkpoint.tensor_missing", folder=str(self.folder), tensors=listed([name]))
        return self._shards[name]

    def _require(self, needed: Mapping[str, tuple[int, ...]]) -> None:
        missing = [name for name in needed if name not in self._shards]
        if missing:
            raise InputError("checkpoint.tensor_missing", folder=str(self.folder), tensors=listed(missing))
        for name, shape in needed.items():
            info = self._shards[name]
            if info.shape != shape:
                raise InputError(
                    "checkpoint.tensor_shape",
                    file=str(info.file),
                    tensor=name,
                    found=shape_text(info.shape),
                    expected=shape_text(shape),
                )

    def _refuse_unexpected(self, layer: int, expected: Mapping[str, object]) -> None:
        prefix = layout.layer_prefix(layer) + "self_attn."
        # Older exports also keep the rotary frequencies, which the model computes anew.
        found = [
            name
            for name in self._shards
            if name.startswith(prefix) and name not in expected and not name.endswith("rotary_emb.inv_freq")
        ]
        if found:
            raise InputError("checkpoint.tensor_unexpected", folder=str(self.folder), tensors=listed(found))

    def _read(self, info: TensorInfo, starts: Sequence[int], count: int) -> "NDArray[np.uint8]":
        """Return the bytes of ``info``'s file from each of ``starts``, ``count`` of them each, one after the other."""
        import numpy as np  # what is opened only to be described needs none

        try:
            read = np.empty(len(starts) * count, dtype=np.uint8)  # a bytearray would be filled with zeros first
        except (MemoryError, OverflowError, ValueError):
            raise Unsupported("checkpoint.memory", tensor=info.name, bytes=len(starts) * count) from None
        view = read.data
        try:
            with info.file.open("rb", buffering=0) as file:
                for index, start in enumerate(starts):
                    _fill(view[index * count : (index + 1) * count], file, start, info)
        except OSError as fault:
            raise InputError("checkpoint.unreadable", file=str(info.file), fault=fault.strerror or str(fault)) from None
        self._bytes_read += len(read)
        return read


def _fill(view: memoryview, file: FileIO, start: int, info: TensorInfo) -> None:
    """Fill ``view`` from ``start`` on; raises InputError where the file has become shorter since it was checked."""
    file.seek(start)
    done = 0
    while done < len(view):
        got = file.readinto(view[done : done + CHUNK])
        if not got:
            raise InputError("checkpoint.changed", file=str(info.file), tensor=info.name)
        done += got


def _as_tensor(
    data: "NDArray[np.uint8]", stored: str, shape: tuple[int, ...], dtype: "torch.dtype | None"
) -> "torch.Tensor":
    import torch

    kind = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}[stored]
    if not data.size:  # frombuffer refuses an empty buffer
        return torch.empty(shape, dtype=dtype or kind)
    tensor = torch.frombuffer(data, dtype=kind).reshape(shape)
    return tensor if dtype is None else tensor.to(dtype)


def _bare(fault: Message) -> Message:
    """Return ``fault``, which kept ids from being shown as text, without the advice to give ids: they were given."""
    return message(_SHOWN_BARE[fault.id], **fault.values) if fault.id in _SHOWN_BARE else fault
