"""When an image is due by what was committed since the last one."""

from __future__ import annotations

from hdfsstore._cext.versioned_map import Image

# An image that is smaller counts as this large: small stores are not worth a new image for each batch.
_SMALL_IMAGE = 1 << 20
# How often image_overlay_share may be committed on an image before a task makes the next one itself.
OVERDUE = 1.5


def has_outgrown(image: Image, update_bytes: int, share: float) -> bool:
    """Whether that much on top of an image takes more than a share of it."""
    return update_bytes > share * max(image.nbytes, _SMALL_IMAGE)
