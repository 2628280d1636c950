"""Writing to object stores: ``s3://``, ``gs://`` and ``az://`` addresses (extra ``cloud``)."""

from geotfr.storage.remote.lock import StoreLock
from geotfr.storage.remote.store import Store
from geotfr.stores.address import StoreAddress
from geotfr.stores.client import StoredObject

__all__ = ["Store", "StoreAddress", "StoreLock", "StoredObject"]
