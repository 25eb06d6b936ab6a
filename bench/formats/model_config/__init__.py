"""A model's config.json, as Hugging Face writes it, into the shapes of its tensors.

In: the file. Out: a Model. Without transformers: `families` has a function per kind of model that
lists its tensors; each was held against the published number of parameters. A kind that is not
there is refused by name: a guess would be wrong by billions.
"""

from __future__ import annotations

from bench.formats.model_config.reader import read

__all__ = ["read"]
