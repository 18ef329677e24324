"""Decides when an image is due, by the bytes that were committed since the last one."""

from __future__ import annotations

from hdfsstore._cext.versioned_map import Image

# A smaller image counts as this large, so that a small store does not get a new image with each batch.
_SMALL_IMAGE = 1 << 20
# At this multiple of image_overlay_share a task makes the next image itself.
OVERDUE = 1.5


def has_outgrown(image: Image, update_bytes: int, share: float) -> bool:
    """Whether the updates on top of an image take more than that share of it."""
    return update_bytes > share * max(image.nbytes, _SMALL_IMAGE)
