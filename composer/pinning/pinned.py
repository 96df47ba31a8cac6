"""What is written: a release's image, in the forms that a deploy file may name it in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from ..errors import InputError
from ..oci.digest import Digest
from ..oci.reference import Reference, is_tag

__all__ = ["Form", "Pinned"]

Form = Literal["tag+digest", "digest", "image-id"]


@dataclass(frozen=True, slots=True)
class Pinned:
    """A release's image.

    `repository` has its domain and neither tag nor digest; it is written as it is given.
    `digest` is that of the index, or of the only manifest. `image_id` is the digest of one
    platform's config, and only the form "image-id" needs it.

    Every text made of these holds letters, digits and `._-/:@[]` alone: in no format is there
    anything to escape within quotes.

    Raises:
        ValueError: `repository` or `tag` is none.
    """

    repository: str
    tag: str | None
    digest: Digest
    image_id: Digest | None = None

    def __post_init__(self) -> None:
        reference = Reference.parse(self.repository)
        if reference.tag is not None or reference.digest is not None:
            raise ValueError(f"{self.repository!r} is a reference, not a repository")
        if self.tag is not None and not is_tag(self.tag):
            raise ValueError(f"{self.tag!r} is not a tag")

    def needed_tag(self) -> str:
        """Return the tag.

        Raises:
            InputError: there is none.
        """
        if self.tag is None:
            raise InputError.of(
                'the form "tag+digest" needs a tag, and the release has none',
                where=self.repository,
                fix='push the release with --tag, or set form = "digest"',
            )
        return self.tag

    def text(self, form: Form) -> str:
        """Return the reference in `form`.

        Raises:
            InputError: `form` needs what is not there, or is none.
        """
        match form:
            case "tag+digest":
                return f"{self.repository}:{self.needed_tag()}@{self.digest}"
            case "digest":
                return f"{self.repository}@{self.digest}"
            case "image-id":
                if self.image_id is None:
                    raise InputError.of(
                        'the form "image-id" needs the image id of one platform',
                        where=self.repository,
                        fix='set form = "digest", or name the platform',
                    )
                return str(self.image_id)
            case _:
                raise InputError.of(f"unknown form {form!r}", expected=", ".join(get_args(Form)))
