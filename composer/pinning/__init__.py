"""Pinning: a release's image written into a deploy file, with no other byte changed.

`place` is the grammar of where; `pin` finds and replaces. A file is read twice: by a walk that
knows positions (`yamltree`, `jsontree`, `tomltree`, `dotenv`) and, to prove the result, by its
format's own parser (`verify`). Reading and writing files is left to others. Its parts are imported
by name: images.toml needs the grammar alone, in every run.
"""
