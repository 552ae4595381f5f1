"""Documents under test; the baseline is the candidate made of the live ones."""

from __future__ import annotations

from msgspec import Struct

from skillopt_sleep.domain.digest import sha256
from skillopt_sleep.domain.document import Document, DocumentKind

__all__ = ["Candidate"]


class Candidate(Struct, frozen=True, kw_only=True):
    """The documents an agent is given in one arm of a comparison, at most one of each kind."""

    documents: tuple[Document, ...]

    def __getitem__(self, kind: DocumentKind) -> Document | None:
        return next((document for document in self.documents if document.kind is kind), None)

    def with_document(self, changed: Document) -> Candidate:
        """The same candidate with the document of that kind replaced."""
        return Candidate(documents=tuple(changed if old.kind is changed.kind else old for old in self.documents))

    @property
    def digest(self) -> str:
        """Sixteen hex digits over kinds and contents; equal for byte-identical candidates wherever they lie."""
        contents = [(each.kind, b"\0absent" if each.content is None else each.content) for each in self.documents]
        return sha256(b"".join(b"%s:%d:%s" % (kind.encode(), len(content), content) for kind, content in contents))[:16]
