"""Tables of features: vector files, CSV, Parquet and frames, as columns of records and back.

The only room that imports pyogrio, pyarrow and geopandas, each when it is first needed (extra ``vector``).
"""
