"""Pure numpy: where the patches of a grid lie, and how they are cut, masked, filled and laid back."""

from geotfr.patches.layout import PatchLayout

__all__ = ["PatchLayout"]
