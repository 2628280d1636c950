"""Object stores: sets at ``s3://``, ``gs://`` and ``az://`` addresses (extra ``cloud``)."""

from geotfr.storage.remote.address import StoreAddress
from geotfr.storage.remote.lock import StoreLock
from geotfr.storage.remote.store import Store, StoredObject

__all__ = ["Store", "StoreAddress", "StoreLock", "StoredObject"]
