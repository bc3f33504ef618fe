"""The refusals of the console: a status of HTTP, and a code for which the page has a sentence in its language."""

from headrace.core.errors import HeadraceError


class Refused(HeadraceError):
    """A request that is not done; `text` is what the server said, where it was the server."""

    def __init__(self, status: int, code: str, text: str = "") -> None:
        super().__init__(text or code)
        self.status = status
        self.code = code
        self.text = text


class CannotShow(HeadraceError):
    """The console cannot start; the text is one sentence for a person."""
