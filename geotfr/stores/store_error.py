"""What an object store's refusal becomes.

The library's own words aren't repeated: they hold the request's address, which may carry a signature.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from geotfr.errors import InputError, MissingInputError, OutputError

if TYPE_CHECKING:
    from geotfr.errors import GeotfrError

__all__ = ["store_error"]

_STATUS = re.compile(r"status code: (\d{3})|status: (\d{3})")
_CODE = re.compile(r"<Code>([A-Za-z]{1,60})</Code>")
_MESSAGE = re.compile(r"<Message>\s*([^<\n]{1,200})")
_NAMES = re.compile(r"Invalid(?:Resource|Bucket|Container|Object)Name|InvalidUri|OutOfRangeInput|KeyTooLong")
_RETRIES = re.compile(r"after (\d+) retries")
# Without credentials in the environment the machine's own role is asked for at these addresses.
_ROLE = re.compile(r"latest/api/token|latest/meta-data|computeMetadata|metadata/identity|metadata\.google")
_NO_KEYS = re.compile(r"MissingAccessKey|missing (?:access )?key|No credential|credential", re.IGNORECASE)

_VARIABLES = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS",
    "az": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
}


def store_error(address: str, error: Exception, *, is_writing: bool) -> GeotfrError:
    """What to raise for an ``error`` of the library, met while ``address`` was written or read."""
    text = str(error)
    kind = type(error).__name__
    found = _STATUS.search(text)
    status = int(found[1] or found[2]) if found else 0
    code = _CODE.search(text)
    told = " ".join(each for each in (str(status) if status else "", code[1] if code else "") if each)
    reason = _MESSAGE.search(text)
    why = f": {reason[1].strip().rstrip('.')}" if reason else ""
    variables = _VARIABLES.get(address.partition(":")[0], "the environment")
    where = "store" if address.partition(":")[0] in _VARIABLES else "server"
    refuses: type[OutputError] | type[InputError] = OutputError if is_writing else InputError
    if _ROLE.search(text) or (not status and _NO_KEYS.search(text)):
        return refuses(f"{address}: no credentials for this store; set {variables} in the environment")
    if status and _NAMES.search(told):
        return refuses(f"{address}: the {where} refuses the name ({told}{why}); give another")
    if "NoSuchBucket" in text:
        return (OutputError if is_writing else MissingInputError)(
            f"{address}: the bucket isn't there; make it, or correct the address"
        )
    if isinstance(error, FileNotFoundError):
        return (OutputError if is_writing else MissingInputError)(
            f"{address}: no such {'object or bucket' if where == 'store' else 'file'}; correct the address"
        )
    if kind in ("PermissionDeniedError", "UnauthenticatedError") or status in (401, 403):
        return refuses(
            f"{address}: the {where} refuses ({told or kind}{why}); check the rights of the credentials in {variables}"
        )
    if kind == "PreconditionError":
        return refuses(f"{address}: another process changed it meanwhile; run again")
    if "Range" in text and kind in ("NotSupportedError", "GenericError"):
        return refuses(f"{address}: the {where} sends no ranges of a file; fetch the file and name it instead")
    retries = _RETRIES.search(text)
    tried = f" after {retries[1]} retries" if retries and retries[1] != "0" else ""
    if status:
        stays = ", what arrived stays" if is_writing else ""
        return refuses(f"{address}: the {where} answers {told}{why}{tried}; run again{stays}")
    return refuses(f"{address}: the {where} can't be reached{tried}; check the network and the address, and run again")
