"""Earth Engine's mixer, geotfr's manifest, and the names of the files of a set."""

from geotfr.mixer.manifest import (
    BandInfo,
    CollectionPlace,
    Manifest,
    ShardInfo,
    SourceInfo,
    is_manifest,
    manifest_of,
    read_manifest,
)
from geotfr.mixer.mixer import Mixer, is_mixer, mixer_from_text, read_mixer
from geotfr.mixer.names import Naming, SetNames, is_shard_name, natural_key, shard_number, shard_pattern, shard_stem

__all__ = [
    "BandInfo",
    "CollectionPlace",
    "Manifest",
    "Mixer",
    "Naming",
    "SetNames",
    "ShardInfo",
    "SourceInfo",
    "is_manifest",
    "is_mixer",
    "is_shard_name",
    "manifest_of",
    "mixer_from_text",
    "natural_key",
    "read_manifest",
    "read_mixer",
    "shard_number",
    "shard_pattern",
    "shard_stem",
]
