"""A checkpoint's weight files seen as one mapping from tensor names to places, after proof that they agree.

Index, files and headers must say the same: nothing missing, nothing stray, every tensor where the index says. Must not
know: torch, which tensors a model needs.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from types import MappingProxyType

from tracer.checkpoint import strictjson
from tracer.checkpoint.header import Header, TensorInfo, read_header
from tracer.checkpoint.places import Place
from tracer.checkpoint.wording import listed, shown
from tracer.errors import InputError

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
READABLE = ("F64", "F32", "F16", "BF16")
PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".msgpack", ".h5")
_SHARD_NAME = re.compile(r"[^/\\\x00-\x1f]{1,200}\.safetensors")
_PACKED = re.compile(r"\.(qweight|qzeros|scales|g_idx|weight_packed|weight_scale|weight_scale_inv|weight_zero_point)$")


class Shards(Mapping[str, TensorInfo]):
    """Tensors by name. A hub's shard is downloaded, and its header checked, when one of its tensors is first asked for.

    Names are those of Qwen3ForCausalLM (``model.layers.0…``); a checkpoint of the bare model, which lacks the
    ``model.`` in front, is read under the same names.
    """

    def __init__(self, place: Place, files: Mapping[str, str]) -> None:
        self._place = place
        self._files = files  # stored name → file name
        self._headers: dict[str, Header] = {}
        bare = "embed_tokens.weight" in files and "model.embed_tokens.weight" not in files
        self._stored = {f"model.{name}" if bare and name != "lm_head.weight" else name: name for name in files}

    def __getitem__(self, name: str) -> TensorInfo:
        stored = self._stored[name]
        info = self.header(self._files[stored]).tensors[stored]
        return TensorInfo(name, info.dtype, info.shape, info.file, info.offset, info.nbytes, stored)

    def __contains__(self, name: object) -> bool:
        return name in self._stored  # no download

    def __iter__(self) -> Iterator[str]:
        return iter(self._stored)

    def __len__(self) -> int:
        return len(self._stored)

    @property
    def files(self) -> tuple[str, ...]:
        """The names of the weight files, sorted."""
        return tuple(sorted(set(self._files.values())))

    def header(self, file: str) -> Header:
        """Return the header of one weight file; raises InputError where file and index differ."""
        if file not in self._headers:
            path = self._place.find(file)
            if path is None:
                lost = sorted(name for name, where in self._files.items() if where == file)
                fault = InputError(
                    "checkpoint.shard_missing", folder=str(self._place.folder), shard=shown(file), tensors=listed(lost)
                )
                raise self._place.absent(file, fault)
            self._headers[file] = self._agreeing(read_header(path), file)
        return self._headers[file]

    def headers_sha256(self) -> str:
        """Return one sha256 over the headers read so far: all of a folder's, of a hub's those that were needed."""
        lines = (f"{file} {header.sha256}\n" for file, header in sorted(self._headers.items()))
        return hashlib.sha256("".join(lines).encode()).hexdigest()

    def _agreeing(self, header: Header, file: str) -> Header:
        """Return ``header`` if it holds exactly the tensors that the index places in ``file``, none of them packed."""
        promised = {name for name, where in self._files.items() if where == file}
        missing, extra = sorted(promised - header.tensors.keys()), sorted(header.tensors.keys() - promised)
        if missing:
            raise InputError("checkpoint.not_in_shard", file=str(header.file), tensors=listed(missing))
        elsewhere = [name for name in extra if name in self._files]
        if elsewhere:
            raise InputError(
                "checkpoint.in_other_shard",
                file=str(header.file),
                tensors=listed(elsewhere),
                shard=shown(self._files[elsewhere[0]]),
            )
        if extra:
            raise InputError("checkpoint.not_in_index", file=str(header.file), tensors=listed(extra))
        refuse_packed(header)
        return header


def read_shards(place: Place) -> Shards:
    """Return the tensors of the checkpoint at ``place``; a folder's files are all checked now, a hub's when needed."""
    single, index = place.find(SINGLE), place.find(INDEX)
    if single is not None and index is not None:
        raise InputError("checkpoint.two_layouts", folder=str(place.folder), single=SINGLE, index=INDEX)
    if index is not None:
        shards = Shards(place, _read_index(index))
    elif single is not None:
        header = read_header(single)
        refuse_packed(header)
        shards = Shards(place, dict.fromkeys(header.tensors, SINGLE))
    else:
        raise place.absent(SINGLE, _nothing_to_read(place))
    if place.complete:
        _check_files(place, shards)
    return shards


def refuse_packed(header: Header) -> None:
    """Raise InputError that names the first tensor whose numbers are not plain floats (quantised, packed integers)."""
    for name, info in header.tensors.items():
        if info.dtype not in READABLE or _PACKED.search(name):
            raise InputError(
                "checkpoint.quantised_tensor",
                file=str(header.file),
                tensor=shown(name),
                dtype=info.dtype,
                known=", ".join(READABLE),
            )


def _read_index(path: Path) -> Mapping[str, str]:
    weight_map = strictjson.read_object(path).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise InputError("checkpoint.index_map", file=str(path), found=shown(weight_map))
    for name, file in weight_map.items():
        if not isinstance(file, str) or not _SHARD_NAME.fullmatch(file) or PurePosixPath(file).name != file:
            raise InputError("checkpoint.index_name", file=str(path), tensor=shown(name), found=shown(file))
    return MappingProxyType(weight_map)


def _check_files(place: Place, shards: Shards) -> None:
    """Raise InputError unless the folder holds exactly the weight files that are meant, and each has what it should."""
    present = {name for name in place.names() if name.endswith(".safetensors")}
    stray = sorted(present - set(shards.files))
    for file in shards.files:
        shards.header(file)
    if stray:
        raise InputError(
            "checkpoint.stray_file", folder=str(place.folder), files=listed(stray), meant=listed(list(shards.files))
        )


def _nothing_to_read(place: Place) -> InputError:
    names = place.names()
    weights = [name for name in names if name.endswith(".safetensors")]
    pickles = [name for name in names if name.endswith(PICKLES)]
    if weights:
        return InputError("checkpoint.no_index", folder=str(place.folder), files=listed(weights), index=INDEX)
    if pickles:
        return InputError("checkpoint.pickle_only", folder=str(place.folder), files=listed(pickles))
    return InputError("checkpoint.no_weights", folder=str(place.folder), single=SINGLE, index=INDEX)
