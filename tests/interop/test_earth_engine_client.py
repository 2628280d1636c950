"""Upload manifests through Earth Engine's own client, with the transport replaced: what it would send."""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle.rasters import numbered
from oracle.run import run
from oracle.sets import write_set

import geotfr
from geotfr.pipeline.ingest.asset import asset_name, asset_properties

pytestmark = pytest.mark.interop

# Its dependencies warn while they are imported.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    ee = pytest.importorskip("ee", reason="earthengine-api isn't installed")
    import httplib2
    from ee import _cloud_api_utils
    from ee.cli import commands
    from googleapiclient import discovery

DISCOVERY = Path(ee.__file__).parent / "tests" / "cloud_api_discovery_document.json"
POLICIES = ("MEAN", "SAMPLE", "MIN", "MAX", "MODE", "MEDIAN")
FIELDS: dict[str, dict[str, Any]] = {
    "ImageManifest": {
        "name": str,
        "properties": dict,
        "uriPrefix": str,
        "tilesets": ["Tileset"],
        "bands": ["TilesetBand"],
        "maskBands": ["TilesetMaskBand"],
        "missingData": "MissingData",
        "pyramidingPolicy": POLICIES,
        "startTime": str,
        "endTime": str,
    },
    "Tileset": {"id": str, "crs": str, "sources": ["ImageSource"]},
    "ImageSource": {"uris": [str]},
    "TilesetBand": {
        "id": str,
        "tilesetId": str,
        "tilesetBandIndex": int,
        "missingData": "MissingData",
        "pyramidingPolicy": POLICIES,
    },
    "TilesetMaskBand": {"tilesetId": str, "bandIds": [str]},
    "MissingData": {"values": [(int, float, str)]},
}
"""**Source**: the reference of Earth Engine's REST API, ``projects.image.import``; a list holds one type."""

NAME = "projects/my-project/assets/maps/a-1"


class Wire:
    """In place of the connection: keeps each request, and answers that an operation has begun."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str, Any]] = []

    def request(self, uri: str, method: str = "GET", body: str | None = None, **_: object) -> tuple[Any, bytes]:
        self.sent.append((method, uri, json.loads(body or "null")))
        return httplib2.Response({"status": "200"}), b'{"name": "projects/my-project/operations/ABC"}'

    def close(self) -> None:
        """As a connection."""


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Wire:
    wire = Wire()
    resource = discovery.build_from_document(DISCOVERY.read_text(), http=wire)
    monkeypatch.setattr(ee.data, "_get_cloud_projects", resource.projects)
    monkeypatch.setattr(ee.data, "_get_projects_path", lambda: "projects/my-project")
    return wire


def upload(manifest: Path, wire: Wire) -> dict[str, Any]:
    """The manifest that ``earthengine upload image --manifest`` sends."""
    parser = argparse.ArgumentParser()
    command = commands.UploadImageCommand(parser)
    config = argparse.Namespace(ee_init=lambda: None)
    command.run(parser.parse_args(["--manifest", str(manifest)]), config)
    ((method, uri, body),) = wire.sent
    assert method == "POST"
    assert "/projects/my-project/image:import" in uri
    manifest_sent: dict[str, Any] = body["imageManifest"]
    return manifest_sent


def check_fields(value: dict[str, Any], name: str) -> None:
    """Each key of ``value`` is a field of the message ``name``, with a value of its type or among its choices."""
    for key, each in value.items():
        field = FIELDS[name][key]
        assert isinstance(each, list) == isinstance(field, list), key
        kind = field[0] if isinstance(field, list) else field
        for item in each if isinstance(each, list) else [each]:
            if isinstance(kind, str):
                check_fields(item, kind)
            elif kind is POLICIES:
                assert item in POLICIES
            else:
                assert isinstance(item, kind), key


@pytest.mark.parametrize(
    "more",
    [
        (),
        ("--short-uris",),
        ("--list-bands",),
        ("--crs", "EPSG:32619"),
        ("--mask-bands", "all"),
        ("--mask-bands", "town"),
        ("--name", "users/me/map"),
        ("--pyramiding-policy", "wood=mode,*=median"),
        ("--missing-data", "wood=-1,town=nan"),
        ("--missing-data", "-1", "--pyramiding-policy", "sample"),
        ("--start-time", "2024-01-01T12:00:00.123Z", "--end-time", "2024-01-02"),
        ("--property", "a=1", "--property", "(string)b=1", "--property", "c=null", "--property", "(date)d=2024-01-01"),
        ("--uri-prefix", "{mixer}=gs://other/grid/"),
    ],
    ids=" ".join,
)
def test_the_client_sends_a_manifest_unchanged_and_the_api_has_each_field(
    more: tuple[str, ...], wire: Wire, tmp_path: Path
) -> None:
    bands = np.stack([numbered(1, 4, 8)[0]] * 3)
    mixer, shards = write_set(tmp_path, bands, patch=(2, 2), names=("wood", "town", "seen"), shards=2)
    given = [text.format(mixer=mixer) for text in more]
    where = ["--name", NAME] * ("--name" not in more) + ["--uri-prefix", "gs://bucket/map/"]
    out = tmp_path / "upload.json"
    outcome = run("upload-manifest", mixer, *shards, *where, *given, "--output", out)
    assert outcome.code == 0, outcome.told
    sent = upload(out, wire)
    assert sent == json.loads(out.read_text())
    check_fields(sent, "ImageManifest")
    assert _cloud_api_utils.convert_asset_id_to_asset_name(sent["name"]) == sent["name"]


@pytest.mark.parametrize(
    "name",
    [
        "projects/my-project/assets/a",
        "projects/google.com:my-project/assets/a/b",
        "projects/abcdef/assets/a",
        "projects/abcde/assets/a",
        "projects/My-project/assets/a",
        "projects/a" + "b" * 29 + "/assets/a",
        "projects/a" + "b" * 30 + "/assets/a",
        "projects/ends-in-/assets/a",
        "users/me/a",
        "projects/p/a",
    ],
)
def test_an_asset_has_the_name_that_the_client_makes_of_it(name: str) -> None:
    assert asset_name(name, []) == _cloud_api_utils.convert_asset_id_to_asset_name(name)


@pytest.mark.parametrize(
    "text",
    [
        "a=1",
        "a=1.5",
        "a=1e3",
        "a=007",
        "a= 7 ",
        "a=one",
        "a=",
        "a=b=c",
        "a=null",
        "(string)a=1",
        "(string)a=null",
        "(number)a=-2",
        "(number)a=null",
        "(date)a=2024-01-01",
        "(date)a=2024-01-01T10:00:00",
        "(date)a=2024-01-01T10:00:00.25",
        "(date)a=1969-12-31T23:59:59.5",
        "(date)a=12345",
        "(date)a=",
        "(number)a=one",
        "(date)a=soon",
        "(text)a=1",
        "()a=1",
        "a",
        "=1",
    ],
)
def test_a_property_is_what_the_client_reads(text: str) -> None:
    try:
        name, value = commands._decode_property(text)
    except argparse.ArgumentTypeError:
        with pytest.raises(geotfr.UsageError):
            asset_properties([text], [])
        return
    assert asset_properties([text], []) == {name: value}


@pytest.mark.parametrize("time", ["2024-01-01", "2024-01-01T10:00:00", "2024-01-01T10:00:00.250000"])
def test_a_time_is_what_the_client_writes(time: str, wire: Wire, tmp_path: Path) -> None:
    mixer, shards = write_set(tmp_path, numbered(1, 4, 4), patch=(2, 2))
    out = tmp_path / "upload.json"
    run("upload-manifest", mixer, *shards, "--name", NAME, "--uri-prefix", "gs://b/", "--start-time", time, "-o", out)
    assert upload(out, wire)["startTime"] == commands._cloud_timestamp_for_timestamp_ms(commands._decode_date(time))


@pytest.mark.parametrize("policy", ["mean", "MEDIAN", "sample", "Min", "max", "mode", "average", ""])
def test_policies_are_those_of_the_client(policy: str, tmp_path: Path) -> None:
    mixer, shards = write_set(tmp_path, numbered(1, 4, 4), patch=(2, 2))
    given = (
        "upload-manifest",
        mixer,
        *shards,
        "--name",
        NAME,
        "--uri-prefix",
        "gs://b/",
        "--pyramiding-policy",
        policy,
    )
    try:
        (expected,) = commands._comma_separated_pyramiding_policies(policy)
    except argparse.ArgumentTypeError:
        assert run(*given).code == 2
        return
    assert json.loads(run(*given).stdout)["pyramidingPolicy"] == expected
