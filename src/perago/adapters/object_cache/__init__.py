"""The object cache of a worker host: contents by their digest, shared by all its processes."""

from perago.adapters.object_cache.cache import ObjectCache
from perago.adapters.object_cache.intake import CacheWriter, Intake

__all__ = ["CacheWriter", "Intake", "ObjectCache"]
