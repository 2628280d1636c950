"""Object stores and web servers as places of files: addresses, requests, and paths that name what is there."""

from geotfr.stores.address import StoreAddress, address_scheme
from geotfr.stores.client import StoreClient, StoredObject
from geotfr.stores.path import StorePath, any_path

__all__ = ["StoreAddress", "StoreClient", "StorePath", "StoredObject", "address_scheme", "any_path"]
