"""The command lines of the golden corpus: a name, and what runs one after the other; ``@`` is the folder of the name.

``in/`` holds the inputs. ``!damage`` flips a byte in the middle of a file.
"""

from __future__ import annotations

_P32 = "--patch-dimensions 32"
LINES: dict[str, tuple[str, ...]] = {
    # Patches, shards, compression.
    "plain": (f"export in/scene.tif -o @/scene {_P32} --no-compressed",),
    "fast": (f"export in/scene.tif -o @/scene {_P32}",),
    "ee": (f"export in/scene.tif -o @/scene {_P32} --compressor ee --max-file-size 60000",),
    "folder": (f"export in/scene.tif -o @/ {_P32} --max-file-size 100kB",),
    "cloud-names": (f"export in/scene.tif -o @/scene {_P32} --naming cloud-storage --max-file-size 80KiB",),
    "kernel": ("export in/scene.tif -o @/scene --patch-dimensions 48,32 --kernel-size 16,9",),
    "pad": ("export in/scene.tif -o @/scene --patch-dimensions 64 --edge pad --default-value 7 --patch-index number",),
    "native": (f"export in/scene.tif in/cover.tif in/heights.tif -o @/scene {_P32} --feature-kinds native",),
    "native-large": (f"export in/large.tif -o @/large {_P32} --feature-kinds native --no-compressed",),
    "collapse": (f"export in/scene.tif in/heights.tif -o @/scene {_P32} --collapse-bands",),
    "sequence": ("export in/south.tif -o @/south --patch-dimensions 16 --sequence-data --max-file-size 50kB",),
    "pixels": ("export in/south.tif -o @/south --patch-dimensions 1 --compressor ee",),
    "array-bands": (
        f"export in/scene.tif -o @/scene {_P32} --array-band evi=in/evi_2024-*.tif:1 --tensor-depths evi=4"
        " --default-value -1",
    ),
    "array-sequence": (
        "export in/scene.tif -o @/scene --patch-dimensions 50,25 --array-band evi=in/evi_2024-*.tif:1"
        " --tensor-depths evi=2 --sequence-data --bands B2",
    ),
    "array-collapse": (
        f"export in/scene.tif -o @/scene {_P32} --array-band evi=in/evi_2024-*.tif:1 --tensor-depths evi=3"
        " --collapse-bands --bands B2",
    ),
    "format-options": (
        """export in/scene.tif -o @/scene --format-options '{"patchDimensions": [40, 30], "kernelSize": 10,"""
        """ "compressed": false, "maxFileSize": 150000, "defaultValue": 3, "maskedThreshold": 0.5}'""",
    ),
    # Bands, masks, values.
    "bands": (f"export in/scene.tif -o @/scene {_P32} --bands red=B4,1 --nodata none",),
    "threshold": (f"export in/scene.tif -o @/scene {_P32} --masked-threshold 0.25 --default-value 99",),
    "mask-band": (f"export in/scene.tif -o @/scene {_P32} --mask-mode band --mask in/water.tif --default-value 1",),
    "valid-feature": (
        f"export in/scene.tif in/cover.tif -o @/scene {_P32} --valid-feature valid --kernel-size 8 --edge pad"
        " --feature-kinds native --patch-index number --default-value 3",
    ),
    "unscale": (f"export in/scaled.tif -o @/scaled {_P32} --unscale",),
    "complex": (f"export in/waves.tif -o @/waves {_P32} --complex real,imag",),
    "bare": ("export in/bare.tif -o @/bare --patch-dimensions 16 --allow-ungeoreferenced",),
    "alpha": ("export in/rotated.tif -o @/rotated --patch-dimensions 16,8 --kernel-size 3",),
    # Grids.
    "region": (f"export in/scene.tif -o @/scene {_P32} --region in/region.geojson --no-clip-region",),
    "clip-region": (f"export in/scene.tif -o @/scene {_P32} --region in/region.geojson --clip-region --scale 15",),
    "dimensions": (f"export in/heights.tif -o @/heights {_P32} --dimensions 100 --resampling average",),
    "warp": (f"export in/scene.tif -o @/scene {_P32} --crs EPSG:4326 --resampling bilinear",),
    "transform": (
        f"export in/scene.tif -o @/scene {_P32} --crs EPSG:32633 --crs-transform 20,0,400000,0,-20,5000000"
        " --dimensions 96,64 --resampling mode",
    ),
    # Labels and choice.
    "labels": (
        f"export in/scene.tif -o @/scene {_P32} --labels in/shapes.geojson --label-field class --label-name cover"
        " --label-priority town --label-background 9 --label-instances shape --coco",
    ),
    "label-raster": (f"export in/scene.tif -o @/scene {_P32} --labels in/cover.tif --label-ignore 255",),
    "label-features": (
        f"export in/scene.tif -o @/scene {_P32} --labels in/shapes.geojson --label-field class"
        " --label-classes water=3,forest=5 --label-where 'year < 2022' --label-all-touched --label-features polygons",
    ),
    "min-share": (
        f"export in/scene.tif -o @/scene {_P32} --labels in/shapes.geojson --label-field class --min-share water=0.05"
        " --min-valid 0.9",
    ),
    "keep": (f"export in/scene.tif -o @/scene {_P32} --keep in/keep.txt",),
    "within": (f"export in/scene.tif -o @/scene {_P32} --within in/region.geojson",),
    "sample": (f"export in/scene.tif -o @/scene {_P32} --sample 9 --seed 4",),
    "balance": (
        f"export in/scene.tif -o @/scene {_P32} --labels in/shapes.geojson --label-field class --sample 8"
        " --balance majority",
    ),
    # The table and what is made with it.
    "patch-table": (f"export in/scene.tif in/heights.tif -o @/scene {_P32} --patch-table --kernel-size 4",),
    "class-bands": (
        f"export in/cover.tif -o @/cover {_P32} --patch-table --class-bands b1 --stac --datetime 2024-06-01",
    ),
    "table": (
        f"export in/scene.tif -o @/scene {_P32}",
        "table @/scene.json --source in/scene.tif --join in/extra.csv",
    ),
    "split": (
        f"export in/scene.tif -o @/scene {_P32} --patch-table",
        "split @/scene-patches.parquet --by blocks --block-size 640 --buffer 300 --shares a=0.5,b=0.5 --shards @/split",
    ),
    "stats": (
        f"export in/scene.tif -o @/scene {_P32} --patch-table",
        "stats @/scene-patches.parquet --where 'masked_share < 0.5' --bins 16 -o @/stats.json",
    ),
    "collection": (f"export in/scene.tif in/east.tif -o @/set {_P32} --collection",),
    "collection-shared": (
        f"export in/scene.tif in/east.tif -o @/set {_P32} --collection --collection-shards shared --max-file-size 90kB",
    ),
    "parts": (
        *(f"export in/scene.tif -o @/scene {_P32} --max-file-size 70kB --patch-table --split {n}/3" for n in range(3)),
        "finalize @/scene",
    ),
    "processes": (f"export in/scene.tif -o @/scene {_P32} --max-file-size 70kB --executor processes --workers 2",),
    # Predictions back: the exported values, which are what a model would return.
    "ingest": (
        "export in/scene.tif -o @/x --patch-dimensions 48,32 --kernel-size 16",
        "ingest-predictions @/x.json @/x.tfrecord.gz -o @/map.tif",
    ),
    "ingest-blend": (
        "export in/heights.tif -o @/x --patch-dimensions 32 --kernel-size 16 --default-value -1",
        *(
            f"ingest-predictions @/x.json @/x.tfrecord.gz --overlap {how} -o @/{how}.tif"
            for how in ("average", "linear", "cosine", "gaussian")
        ),
    ),
    "ingest-vote": (
        "export in/cover.tif -o @/x --patch-dimensions 16 --kernel-size 8 --feature-kinds native",
        "ingest-predictions @/x.json @/x.tfrecord.gz --overlap vote --classes in/classes.csv --format cog -o @/map.tif",
    ),
    "ingest-argmax": (
        "export in/scene.tif -o @/x --patch-dimensions 32 --kernel-size 8 --collapse-bands --no-compressed",
        "ingest-predictions @/x.json @/x.tfrecord --channels first --argmax --confidence --overlap max-probability"
        " --statistics -o @/map.tif",
        "ingest-predictions @/x.json @/x.tfrecord --channels first --class-names a,b,c --threshold 5000 -o @/over.tif",
    ),
    "ingest-types": (
        "export in/scene.tif -o @/x --patch-dimensions 64 --edge pad --patch-index n",
        "ingest-predictions @/x.json @/x.tfrecord.gz --patch-index n --dtype uint8 --scale 50 --offset 10"
        " --bands new=B3 --mask-from in/scene.tif --compress lzw --pyramiding-policy min -o @/map.tif",
    ),
    "ingest-cog": (
        "export in/heights.tif -o @/x --patch-dimensions 32 --default-value -1",
        "ingest-predictions @/x.json @/x.tfrecord.gz --format cog --compress zstd --nodata -1"
        " --stac --datetime 2024-06-01 -o @/map.tif",
        "ingest-predictions @/x.json @/x.tfrecord.gz --co BLOCKXSIZE=64 --co BLOCKYSIZE=64 --compress none"
        " --pyramiding-policy mean -o @/plain.tif",
    ),
    "ingest-grid": (
        "export in/east.tif -o @/x --patch-dimensions 32 --masked-threshold 0.999",
        "ingest-predictions @/x.tfrecord.gz --grid in/east.tif --patch-dimensions 32 -o @/map.tif",
    ),
    "ingest-each": (
        f"export in/scene.tif in/east.tif -o @/set/ {_P32} --collection --edge pad",
        "ingest-predictions @/set --each -o @/maps/",
        "ingest-predictions @/set --mosaic -o @/mosaic.tif",
    ),
    "ingest-shared": (
        f"export in/scene.tif in/east.tif -o @/set {_P32} --collection --collection-shards shared",
        "ingest-predictions @/set-east-mixer.json @/set-0*.tfrecord.gz --of-collection -o @/east.tif",
    ),
    "ingest-sides": (
        "export in/heights.tif -o @/fine --patch-dimensions 32 --default-value -1",
        "export in/cover.tif -o @/coarse --patch-dimensions 16",
        "export in/heights.tif -o @/one --patch-dimensions 1 --dimensions 6,4 --default-value -1",
        "ingest-predictions @/fine.json @/coarse.tfrecord.gz --coarser 2 -o @/coarser.tif",
        "ingest-predictions @/coarse.json @/fine.tfrecord.gz --finer 2 -o @/finer.tif",
        "ingest-predictions @/fine.json @/one.tfrecord.gz --per-patch pixel -o @/pixel.tif",
        "ingest-predictions @/fine.json @/one.tfrecord.gz --per-patch fill -o @/fill.tif",
    ),
    "upload": (
        "export in/scene.tif -o @/x --patch-dimensions 48,32 --kernel-size 16",
        "upload-manifest @/x.json @/x.tfrecord.gz --name projects/project/assets/map --uri-prefix gs://bucket/map/"
        " --start-time 2024-06-01 --missing-data 0 --pyramiding-policy mode -o @/upload.json",
    ),
    # Tables.
    "export-table": ("export-table in/points.csv -o @/points --x x --y y --crs EPSG:32633 --feature-kinds native",),
    "export-shapes": (
        "export-table in/shapes.geojson -o @/shapes --geometry geojson --where 'year > 2020'"
        " --selectors kind=class,weight",
        "export-table in/shapes.geojson -o @/binary --geometry wkb --compressor ee",
    ),
    "ingest-table": (
        "export-table in/shapes.geojson -o @/shapes --geometry wkb",
        *(f"ingest-table @/shapes.tfrecord.gz -o @/back.{suffix}" for suffix in ("geojson", "csv", "parquet", "fgb")),
    ),
    "sample-points": (
        "sample in/scene.tif --points in/points.csv --x x --y y --crs EPSG:32633 --neighborhood 3"
        " --masked fill -o @/points",
        "sample in/scene.tif in/heights.tif --points in/points.csv --x x --y y --crs EPSG:32633 -o @/points.csv",
    ),
    # Records.
    "index": (f"export in/scene.tif -o @/scene {_P32} --max-file-size 80kB", "index @/*.tfrecord.gz"),
    "repair": (
        f"export in/scene.tif -o @/scene {_P32} --no-compressed",
        "!damage @/scene.tfrecord",
        "repair @/scene.tfrecord -o @/whole.tfrecord",
        "repair @/scene.tfrecord -o @/whole.tfrecord.gz",
    ),
}
